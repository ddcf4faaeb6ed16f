import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CascadeProcess, freePort, pinLoad } from './cascade-process.ts';
import { cpuMs } from './cpu-time.ts';
import { median } from './median.ts';
import { printTable } from './print-table.ts';

const inRepository = (path: string): string =>
  fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const shimMain = inRepository('apps/render-shim/dist/main.js');
const photo = inRepository('libs/render/src/testdata/images/files/s-1024x768.jpg');
const documents = inRepository('docs');
const path = '/v1/chat/completions/render';

/** A service runs for days: code that runs often is compiled after some hundred requests. */
const WARM_UP_REQUESTS = 400;

/** The lag that prom-client tells is the time between two turns of a timer of 10 ms: that of an idle loop is 10 ms. */
const LAG_TIMER_MS = 10;

interface RenderCase {
  readonly name: string;
  readonly body: Buffer;
  readonly requests: number;
  /** CPU milliseconds of vLLM 0.33's own render server (render.md 7.6), and what we want. */
  readonly vllm: number;
  readonly goal: number;
}

const chat = (content: unknown, extra: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ ...extra, messages: [{ role: 'user', content }] }));

/** The first so many characters of our documentation: text as people write it. */
function documentation(characters: number): string {
  const files = readdirSync(documents, { recursive: true, encoding: 'utf8' });
  const pages = files.filter((file) => file.endsWith('.md')).sort();
  const text = pages.map((file) => readFileSync(join(documents, file), 'utf8')).join('\n');
  return text.slice(0, characters);
}

/** A photo; no two of a request are the same file, so that none is made once for both. */
function photoPart(number: number): object {
  // Bytes behind the end of a picture do not show.
  const file = Buffer.concat([readFileSync(photo), Buffer.from(String(number))]);
  const url = `data:image/jpeg;base64,${file.toString('base64')}`;
  return { type: 'image_url', image_url: { url } };
}

function cases(): RenderCase[] {
  const images = (count: number, extra?: object): Buffer =>
    chat(
      [
        ...Array.from({ length: count }, (_, number) => photoPart(number)),
        { type: 'text', text: 'What is this?' },
      ],
      extra,
    );
  const cheap = { mm_payload: 'none' };
  return [
    {
      name: 'chat, 416 tokens',
      body: chat(documentation(1_560)),
      requests: 400,
      vllm: 3.1,
      goal: 1,
    },
    {
      name: 'chat, 33k tokens',
      body: chat(documentation(167_000)),
      requests: 20,
      vllm: 67,
      goal: 35,
    },
    { name: 'one image, tensors', body: images(1), requests: 30, vllm: 18.5, goal: 9 },
    { name: 'one image, none', body: images(1, cheap), requests: 200, vllm: 7, goal: 3.5 },
    { name: 'four images, tensors', body: images(4), requests: 10, vllm: 55, goal: 28 },
    { name: 'four images, none', body: images(4, cheap), requests: 100, vllm: 19, goal: 19 },
  ];
}

async function post(shim: CascadeProcess, body: Buffer): Promise<Buffer> {
  const headers = { 'content-type': 'application/json' };
  const answer = await shim.pool.request({ method: 'POST', path, headers, body });
  const bytes = Buffer.from(await answer.body.arrayBuffer());
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}: ${String(bytes)}`);
  return bytes;
}

/** CPU milliseconds of one request, one after the other. */
async function round(shim: CascadeProcess, { body, requests }: RenderCase): Promise<number> {
  const before = cpuMs(shim.pid);
  for (let sent = 0; sent < requests; sent++) await post(shim, body);
  return (cpuMs(shim.pid) - before) / requests;
}

async function measure(shim: CascadeProcess, test: RenderCase, rounds: number): Promise<string[]> {
  const answer = await post(shim, test.body);
  const [, ids = ''] = /"token_ids":\[([0-9,]*)\]/.exec(answer.toString('latin1')) ?? [];
  await round(shim, { ...test, requests: WARM_UP_REQUESTS });
  const figures: number[] = [];
  for (let done = 0; done < rounds; done++) figures.push(await round(shim, test));
  return [
    test.name,
    String(ids.split(',').length),
    (answer.length / 1024).toFixed(0),
    median(figures).toFixed(2),
    Math.min(...figures).toFixed(2),
    String(test.goal),
    String(test.vllm),
  ];
}

/** Longest time in milliseconds that the event loop was held while texts and images came together. */
async function longestHold(shim: CascadeProcess, tests: readonly RenderCase[]): Promise<number> {
  const mixed = [tests[0], tests[1], tests[2], tests[3]].filter((test) => test !== undefined);
  await scrape(shim);
  await Promise.all(
    mixed.map(async ({ body, requests }) => {
      for (let sent = 0; sent < Math.min(requests, 60); sent++) await post(shim, body);
    }),
  );
  const [, seconds = 'NaN'] =
    /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await scrape(shim)) ?? [];
  return Number(seconds) * 1000 - LAG_TIMER_MS;
}

/** Sends a request of four images twenty times at once; throws when one is refused or a thread had to be replaced. */
async function burst(shim: CascadeProcess, body: Buffer): Promise<void> {
  await Promise.all(Array.from({ length: 20 }, () => post(shim, body)));
  const [, restarts] = /^render_worker_restarts_total (\d+)$/m.exec(await scrape(shim)) ?? [];
  if (restarts !== '0') throw new Error(`${restarts} image threads were replaced`);
}

/** Metrics; reading them starts the measurement of the event loop anew. */
async function scrape(shim: CascadeProcess): Promise<string> {
  const { body } = await shim.pool.request({ method: 'GET', path: '/metrics' });
  return body.text();
}

function peakMemoryMb(pid: number): number {
  const [, kilobytes = 'NaN'] =
    /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

/**
 * CPU time per request of a render shim alone on one core, caches off, beside vLLM's render server on such a core; how
 * long it holds its event loop, its start and its memory. `--rounds N` (default 5).
 */
export async function benchRender(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { rounds: { type: 'string' } } });
  const isPinned = pinLoad();
  const directory = await mkdtemp(join(tmpdir(), 'bench-render-'));
  const config = join(directory, 'shim.yaml');
  const port = await freePort();
  await writeFile(
    config,
    JSON.stringify({ listen: `127.0.0.1:${port}`, cache: { token_bytes: 0 } }),
  );
  const startedAt = performance.now();
  const shim = await CascadeProcess.start(
    'render-shim',
    `${process.execPath} ${shimMain} --config ${config}`,
    port,
    isPinned,
  );
  const readyMs = performance.now() - startedAt;
  try {
    const tests = cases();
    const rows: string[][] = [];
    for (const test of tests) rows.push(await measure(shim, test, Number(values.rounds ?? 5)));
    printTable(['request', 'tokens', 'answer KB', 'CPU ms', 'least', 'goal', 'vLLM 0.33'], rows);
    const hold = await longestHold(shim, tests);
    const fourImages = tests.find(({ name }) => name === 'four images, tensors');
    if (fourImages !== undefined) await burst(shim, fourImages.body);
    console.log(
      `\nready after ${readyMs.toFixed(0)} ms, event loop held for ${hold.toFixed(0)} ms at most, peak memory ${peakMemoryMb(shim.pid).toFixed(0)} MB with 80 images at once${isPinned ? '' : ' (not pinned to a core)'}`,
    );
  } finally {
    await shim.stop();
    await rm(directory, { recursive: true });
  }
}
