import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import sharp from 'sharp';
import { Pool } from 'undici';
import { ServiceProcess } from './async/service-process.ts';
import { Random } from './random.ts';

/** How much is asked of the render shim. */
export interface RenderSoakOptions {
  /** How long chats come. */
  readonly seconds: number;
  /** Chats per second; 200 when absent. */
  readonly rate?: number;
  /** Requests of four pictures with tensors, all at once; 20 when absent. */
  readonly images?: number;
  /** Whether slow answers are faults; on a machine with other work they say nothing. */
  readonly judgesTimes: boolean;
}

/** What came of it; times in milliseconds. */
export interface RenderSoakResult {
  readonly chats: number;
  /** Tokens of one chat. */
  readonly chatTokens: number;
  /** Of chats alone, and of those that came while the hostile text was rendered. */
  readonly chatP99Ms: number;
  readonly besideHostileMs: number;
  readonly hostileMs: number;
  readonly cheapP99Ms: number;
  /** How often requests with tensors were told to come again. */
  readonly refused: number;
  /** Resident memory before the pictures and the most of it, with what the budget allows. */
  readonly residentMb: Readonly<Record<'start' | 'peak' | 'limit', number>>;
  /** How late this process was at most. */
  readonly ownLagMs: number;
  /** What must not happen; empty when all is well. */
  readonly faults: readonly string[];
}

/** For images on their way; twenty requests of four need more than twice as much. */
const budgetMb = 512;
/** Tensors that were sent and are kept for the next ones, what the decoder keeps, and what waits for a collection. */
const keptMb = 256;
const limits = { chatMs: 50, besideHostileMs: 150, cheapMs: 30 };
const hostileCharacters = 100_000;
const picturesOfRequest = 4;
const cheapRate = 20;
/** Requests without tensors for each with them. */
const cheapOfPictures = 5;
const pauseMs = 50;
/** What is read of an answer: its ids, or an error. */
const readBytes = 16_384;

/**
 * Chats of about 1,000 tokens at a steady rate, a text without a word boundary in their midst, and then many large pictures
 * at once, to a built render shim.
 */
export async function renderSoak(given: RenderSoakOptions): Promise<RenderSoakResult> {
  const { seconds, rate = 200, images = 20, judgesTimes } = given;
  const faults: string[] = [];
  await using shim = await ServiceProcess.start('render-shim', (port) => ({
    listen: `127.0.0.1:${port}`,
    limits: { mem_budget_mb: budgetMb },
  }));
  await shim.ready();
  const client = new Client(shim.url);
  const lag = new Lag();

  const chats = chatBodies();
  const chatTokens = tokensOf((await client.ask(chats[0] ?? '')).text);
  const hostile = { startedAt: 0, ms: 0 };
  const hostileBody = chatBody('的一是不了人我在有他这中大来上国'.repeat(hostileCharacters / 16));
  const asked: { readonly at: number; readonly ms: number }[] = [];
  const jobs: Promise<void>[] = [];
  await atRate(seconds, rate, (number) => {
    if (number === Math.floor((seconds * rate) / 2)) {
      hostile.startedAt = performance.now();
      jobs.push(client.timed(hostileBody).then(({ ms }) => void (hostile.ms = ms)));
    }
    const at = performance.now();
    const body = chats[number % chats.length] ?? '';
    jobs.push(client.timed(body).then(({ ms }) => void asked.push({ at, ms })));
  });
  await Promise.all(jobs);
  const isBeside = ({ at, ms }: { at: number; ms: number }): boolean =>
    at + ms > hostile.startedAt && at < hostile.startedAt + hostile.ms;
  const besideHostileMs = p99(asked.filter(isBeside).map(({ ms }) => ms));
  const chatP99Ms = p99(asked.filter((chat) => !isBeside(chat)).map(({ ms }) => ms));

  const startMb = residentMb(shim.pid, 'VmRSS');
  const pictures = await Promise.all(
    Array.from({ length: picturesOfRequest }, (_, number) => drawPhoto(number)),
  );
  let refused = 0;
  await Promise.all(
    Array.from({ length: images }, async (_, number) => {
      const body = photoBody(pictures, number, {});
      for (;;) {
        const { status, text } = await client.ask(body);
        if (status === 200) return;
        if (status !== 503) {
          faults.push(`pictures were answered with ${status}: ${text.slice(0, 200)}`);
          return;
        }
        refused += 1;
        await sleep(pauseMs);
      }
    }),
  );
  const peakMb = residentMb(shim.pid, 'VmHWM');
  const cheap: number[] = [];
  await atRate((images * cheapOfPictures) / cheapRate, cheapRate, (number) => {
    const body = photoBody(pictures, number, { mm_payload: 'none' });
    jobs.push(client.timed(body).then(({ ms }) => void cheap.push(ms)));
  });
  await Promise.all(jobs);
  const cheapP99Ms = p99(cheap);

  const metrics = await fetch(`${shim.url}/metrics`).then((answer) => answer.text());
  const [, restarts] = /^render_worker_restarts_total (\d+)$/m.exec(metrics) ?? [];
  if (restarts !== '0') faults.push(`${restarts} image threads were replaced`);
  const limitMb = startMb + budgetMb + keptMb;
  if (peakMb > limitMb) faults.push(`it took ${peakMb} MB, at most ${limitMb} are allowed`);
  faults.push(...client.faults);
  if (judgesTimes) {
    const late = (what: string, ms: number, limitMs: number): void => {
      if (ms > limitMs) faults.push(`${what}: p99 ${ms} ms, the limit is ${limitMs}`);
    };
    late('chats', chatP99Ms, limits.chatMs);
    late('chats beside a hostile text', besideHostileMs, limits.besideHostileMs);
    late('pictures without tensors', cheapP99Ms, limits.cheapMs);
  }
  await client.close();
  return {
    chats: asked.length,
    chatTokens,
    chatP99Ms,
    besideHostileMs,
    hostileMs: Math.round(hostile.ms),
    cheapP99Ms,
    refused,
    residentMb: { start: startMb, peak: peakMb, limit: limitMb },
    ownLagMs: lag.end(),
    faults,
  };
}

/** Asks the shim, and remembers answers that should not be. */
class Client {
  readonly faults: string[] = [];
  readonly #pool: Pool;

  constructor(url: string) {
    this.#pool = new Pool(url, { connections: null });
  }

  async ask(body: string): Promise<{ readonly status: number; readonly text: string }> {
    const answer = await this.#pool.request({
      method: 'POST',
      path: '/v1/chat/completions/render',
      headers: { 'content-type': 'application/json' },
      body,
    });
    // As bytes: most are megabytes that nobody reads.
    const bytes = await answer.body.arrayBuffer();
    return {
      status: answer.statusCode,
      text: Buffer.from(bytes, 0, Math.min(bytes.byteLength, readBytes)).toString(),
    };
  }

  /** Asks for something that must be answered. */
  async timed(body: string): Promise<{ readonly ms: number }> {
    const startedAt = performance.now();
    const { status, text } = await this.ask(body);
    if (status !== 200) this.faults.push(`status ${status}: ${text.slice(0, 200)}`);
    return { ms: performance.now() - startedAt };
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }
}

/** How late a timer of this process is. */
class Lag {
  #worstMs = 0;
  #last = performance.now();
  readonly #timer = setInterval(() => {
    const now = performance.now();
    this.#worstMs = Math.max(this.#worstMs, now - this.#last - pauseMs);
    this.#last = now;
  }, pauseMs);

  /** The worst so far. */
  end(): number {
    clearInterval(this.#timer);
    return Math.round(this.#worstMs);
  }
}

/** Calls `ask` so many times a second, whatever comes of it. */
async function atRate(seconds: number, rate: number, ask: (number: number) => void): Promise<void> {
  const startedAt = performance.now();
  let asked = 0;
  while (asked < seconds * rate) {
    const due = ((performance.now() - startedAt) / 1000) * rate;
    for (; asked < Math.min(due, seconds * rate); asked++) ask(asked);
    await sleep(1);
  }
}

function p99(times: readonly number[]): number {
  const sorted = times.toSorted((one, other) => one - other);
  return Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0);
}

const chatBody = (content: unknown, fields: object = {}): string =>
  JSON.stringify({ ...fields, messages: [{ role: 'user', content }] });

/** Texts of about 1,000 tokens, enough of them that few are known when they come again. */
function chatBodies(): string[] {
  const random = new Random(1);
  const words = 'gateway pod prompt token worker queue limit answer image cache lane step'.split(
    ' ',
  );
  return Array.from({ length: 200 }, () =>
    chatBody(
      Array.from({ length: 205 }, () => `${random.pick(words)} ${random.below(100)}`).join(', '),
    ),
  );
}

function tokensOf(answer: string): number {
  return /"token_ids":\[([0-9,]*)\]/.exec(answer)?.[1]?.split(',').length ?? 0;
}

async function drawPhoto(number: number): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 100 + number, sigma: 12 } as const;
  const background = { r: 90, g: 120, b: 40 * number };
  const size = { width: 1280, height: 720, channels: 3 } as const;
  return await sharp({ create: { ...size, background, noise } })
    .jpeg()
    .toBuffer();
}

/** A request with the pictures, which nobody asked about before: bytes behind the end of a picture do not show. */
function photoBody(pictures: readonly Buffer[], number: number, fields: object): string {
  const parts = pictures.map((picture) => {
    const file = Buffer.concat([picture, Buffer.from(String(number))]);
    const url = `data:image/jpeg;base64,${file.toString('base64')}`;
    return { type: 'image_url', image_url: { url } };
  });
  return chatBody([...parts, { type: 'text', text: 'What is this?' }], fields);
}

function residentMb(pid: number | undefined, figure: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const [, kilobytes] = new RegExp(`^${figure}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  return Math.round(Number(kilobytes) / 1024);
}
