import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type CascadeCase, cascadeCases } from './cascade-cases.ts';
import { CascadeProcess, freePort, pinLoad } from './cascade-process.ts';
import { checkOutcome, differences, type Outcome } from './check-legs.ts';
import { cpuMs } from './cpu-time.ts';
import { median } from './median.ts';
import { printTable } from './print-table.ts';
import { slowStreamFigures } from './slow-streams.ts';
import { StubUpstream } from './stub-upstream.ts';

const coordinatorMain = fileURLToPath(
  new URL('../../../apps/coordinator/dist/main.js', import.meta.url),
);
const bareMain = fileURLToPath(new URL('./bare-cascade.js', import.meta.url));
const path = '/v1/chat/completions';

/** What the coordinator is started with; YAML reads JSON. A metrics port of 0 is for one that only serves. */
const configText = (port: number, metricsPort: number, upstream: string): string =>
  JSON.stringify({
    log_level: metricsPort > 0 ? 2 : 1,
    // A tenth of the requests is traced.
    tracing: metricsPort > 0,
    server: { listen_addr: `127.0.0.1:${port}`, metrics_port: metricsPort },
    gateway: { address: upstream },
    pipeline: {
      ...{ kv_connector: 'kv-nixl', ec_connector: 'ec-nixl', use_openai_format: true },
      steps: [
        { type: 'replace-media-urls' },
        { type: 'render', params: { address: upstream } },
        ...[{ type: 'encode' }, { type: 'prefill' }, { type: 'decode' }],
      ],
    },
  });

async function post(target: CascadeProcess, body: Buffer): Promise<Omit<Outcome, 'legs'>> {
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
  const { statusCode, body: answer } = await target.pool.request({
    ...{ method: 'POST', path, headers, body },
  });
  return { status: statusCode, answer: Buffer.from(await answer.arrayBuffer()) };
}

/** One request whose legs are looked at. */
async function checked(
  target: CascadeProcess,
  stub: StubUpstream,
  test: CascadeCase,
): Promise<Outcome> {
  stub.seen = [];
  const outcome = { ...(await post(target, test.body)), legs: stub.seen };
  stub.seen = undefined;
  checkOutcome(target.name, test, outcome);
  return outcome;
}

/** Sends the requests of one round; resolves with CPU milliseconds of one request. */
async function round(target: CascadeProcess, test: CascadeCase): Promise<number> {
  const before = cpuMs(target.pid);
  let left = test.requests;
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const { status } = await post(target, test.body);
      if (status !== 200) throw new Error(`${target.name}, ${test.name}: status ${status}`);
    }
  };
  await Promise.all(Array.from({ length: test.parallel }, worker));
  return (cpuMs(target.pid) - before) / test.requests;
}

async function compare(
  [bare, ours]: readonly [CascadeProcess, CascadeProcess],
  stub: StubUpstream,
  test: CascadeCase,
  { rounds, isQuiet }: { rounds: number; isQuiet: boolean },
): Promise<string[]> {
  const target = isQuiet ? (test.quietTarget ?? test.target) : test.target;
  stub.current = test;
  const other = differences(await checked(bare, stub, test), await checked(ours, stub, test));
  if (other.length > 0) console.error(`${test.name}: the legs differ in ${other.join(', ')}`);
  const figures: [number, number][] = [];
  for (let i = 0; i <= rounds; i++) {
    const pair: [number, number] = [await round(bare, test), await round(ours, test)];
    // The first round is warm-up for this kind of request.
    if (i > 0) figures.push(pair);
  }
  const ratio = median(figures.map(([a, b]) => b / a));
  const [bareMs, oursMs] = [0, 1].map((i) => median(figures.map((pair) => pair[i] ?? NaN)));
  return [
    ...[test.name, (bareMs ?? NaN).toFixed(2), (oursMs ?? NaN).toFixed(2), ratio.toFixed(2)],
    ...[`<= ${target}`, ratio <= target ? 'yes' : 'NO'],
  ];
}

/** V8 goes on optimising for some ten thousand requests. */
const warmUpRounds = 8;

async function warmUp(
  targets: readonly CascadeProcess[],
  stub: StubUpstream,
  test: CascadeCase,
): Promise<void> {
  stub.current = test;
  for (let i = 0; i < warmUpRounds; i++) {
    for (const target of targets) await round(target, test);
  }
}

/** Puts values in the places of their names in braces. */
const fill = (text: string, values: Readonly<Record<string, string>>): string =>
  text.replaceAll(/\{(\w+)\}/g, (place, name: string) => values[name] ?? place);

/** Rounds of 400 streams that last four seconds each. */
const streamRounds = 3;

async function compareStreams(
  [bare, ours]: readonly [CascadeProcess, CascadeProcess],
  stub: StubUpstream,
): Promise<string[][]> {
  const [a, b] = [
    await slowStreamFigures(bare, stub, streamRounds),
    await slowStreamFigures(ours, stub, streamRounds),
  ];
  const ratio = b.cpuMs / a.cpuMs;
  const met = (isMet: boolean): string => (isMet ? 'yes' : 'NO');
  return [
    [
      ...['400 slow streams, CPU ms each', a.cpuMs.toFixed(2), b.cpuMs.toFixed(2)],
      ...[ratio.toFixed(2), '<= 1.2', met(ratio <= 1.2)],
    ],
    [
      ...['1,000 open streams, KB each', a.kbEach.toFixed(0), b.kbEach.toFixed(0)],
      ...['', '<= 40', met(b.kbEach <= 40)],
    ],
    [
      ...['1,000 streams, open at once', String(a.open), String(b.open)],
      ...['', '1000', met(b.open === 1000)],
    ],
  ];
}

/**
 * `bench cascade`: CPU per request of the coordinator beside a bare cascade of the same legs.
 *
 * `--rounds N` changes the number of rounds, `--only TEXT` takes the cases whose name holds the text, `--command TEXT`
 * compares another coordinator: a shell command in which `{config}` stands for the path of the file and `{upstream}` for
 * the address of the upstream, which takes traces too. `--quiet` has the coordinator write no log lines, metrics and traces.
 */
export async function benchCascade(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      command: {
        type: 'string',
        default: `env OTEL_EXPORTER_OTLP_ENDPOINT={upstream} ${process.execPath} ${coordinatorMain} --config {config}`,
      },
      rounds: { type: 'string', default: '11' },
      only: { type: 'string', default: '' },
      quiet: { type: 'boolean', default: false },
    },
  });
  const isPinned = pinLoad();
  if (!isPinned) console.error('not pinned: taskset and two cores are needed; expect more noise');
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => process.exit(130));

  const stub = new StubUpstream();
  const directory = await mkdtemp(join(tmpdir(), 'bench-cascade-'));
  const running: CascadeProcess[] = [];
  const start = async (name: string, command: string, port: number): Promise<CascadeProcess> => {
    const target = await CascadeProcess.start(name, command, port, isPinned);
    running.push(target);
    return target;
  };
  try {
    const upstream = await stub.start();
    const [barePort, port] = [await freePort(), await freePort()];
    const config = join(directory, 'coordinator.yaml');
    const isQuiet = values.quiet;
    await writeFile(config, configText(port, isQuiet ? 0 : await freePort(), upstream));
    const bareCommand = `${process.execPath} ${bareMain} ${barePort} ${upstream} ${upstream}`;
    const bare = await start('bare cascade', bareCommand, barePort);
    const ours = await start('coordinator', fill(values.command, { config, upstream }), port);
    const rows: string[][] = [];
    const cases = cascadeCases();
    await warmUp([bare, ours], stub, cases[0]);
    for (const test of cases.filter(({ name }) => name.includes(values.only))) {
      rows.push(
        await compare([bare, ours], stub, test, { rounds: Number(values.rounds), isQuiet }),
      );
    }
    if (!isQuiet && 'slow streams'.includes(values.only))
      rows.push(...(await compareStreams([bare, ours], stub)));
    printTable(['case', 'bare', 'coordinator', 'ratio', 'target', 'met'], rows);
  } finally {
    await Promise.allSettled(running.map((target) => target.stop()));
    stub.close();
    await rm(directory, { recursive: true });
  }
}
