import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { makeCase } from './cascade-cases.ts';
import { cpuMs } from './cpu-time.ts';
import { printTable } from './print-table.ts';
import { type Replica, startReplicas, stopReplicas } from './scale-processes.ts';
import { residentKb } from './slow-streams.ts';
import { StubUpstream } from './stub-upstream.ts';

const processCounts = [1, 2, 4];
/** Streams that are opened at the same time: what one core can start in a moment. */
const opening = 100;
const warmEach = 200;
const heldMs = 10_000;
const leavingMs = 30_000;
/** A held stream gets a chunk this often, for longer than any run. */
const [chunkMs, events] = [2_000, 600];

const held = makeCase(
  { promptBytes: 2_048, tokens: 400, events },
  { name: 'held streams', requests: 0, parallel: 0, target: 1, chunkMs },
);

/** The other process: workers and render service. Tells its address, then for each message how many streams are open. */
export async function serveHeldStreams(): Promise<void> {
  const stub = new StubUpstream();
  stub.current = held;
  process.send?.(await stub.start());
  process.on('message', () => process.send?.(stub.openStreams));
  await once(process, 'disconnect');
  process.exit();
}

async function told(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, 'message')) as [unknown];
  return message;
}

function openStreams(child: ChildProcess): Promise<number> {
  child.send('open');
  return told(child) as Promise<number>;
}

/** Streams that are held over one to four coordinators, the same number for each. */
export async function scaleStreams(streams: number, directory: string): Promise<void> {
  const child = fork(process.argv[1] ?? '', ['scale', '--stub']);
  const rows: string[][] = [];
  try {
    const upstream = String(await told(child));
    for (const count of processCounts) {
      const replicas = await startReplicas(count, directory, {
        gateway: upstream,
        render: upstream,
      });
      try {
        const share = Math.round((streams * count) / Math.max(...processCounts));
        rows.push(await hold(replicas, share, child));
      } finally {
        await stopReplicas(replicas);
      }
    }
  } finally {
    child.disconnect();
  }
  printTable(
    ['processes', 'streams', 'open', 'KB each', 'chunks/s', 'CPU us of a chunk', 'left'],
    rows,
  );
}

async function hold(
  replicas: readonly Replica[],
  streams: number,
  child: ChildProcess,
): Promise<string[]> {
  const agent = new Agent({ pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  const sum = (figure: (pid: number) => number): number =>
    replicas.reduce((all, replica) => all + figure(replica.process.pid), 0);
  let chunks = 0;
  const open = async (index: number): Promise<void> => {
    const answer = await agent.request({
      ...{ origin: replicas[index % replicas.length]?.url ?? '', method: 'POST' },
      ...{ path: '/v1/chat/completions', body: held.body },
      headers: { 'content-type': 'application/json' },
    });
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
    // It ends with the agent.
    answer.body.on('error', () => undefined);
    await new Promise((resolve) => {
      answer.body.on('data', () => {
        chunks += 1;
        resolve(undefined);
      });
    });
  };
  // Some streams first, so that what the program itself needs is there before it is weighed.
  const warm = Math.min(warmEach * replicas.length, Math.floor(streams / 2));
  let next = 0;
  const openUpTo = async (wanted: number): Promise<void> => {
    const loop = async (): Promise<void> => {
      while (next < wanted) await open(next++);
    };
    await Promise.all(Array.from({ length: opening }, loop));
  };
  await openUpTo(warm);
  const restingKb = sum(residentKb);
  await openUpTo(streams);
  const isOpen = await openStreams(child);
  const [chunksBefore, cpuBefore] = [chunks, sum(cpuMs)];
  await sleep(heldMs);
  const [seen, cpu] = [chunks - chunksBefore, sum(cpuMs) - cpuBefore];
  const kbEach = (sum(residentKb) - restingKb) / (streams - warm);
  await agent.destroy();
  return [
    ...[String(replicas.length), String(streams), String(isOpen), kbEach.toFixed(0)],
    ...[((seen * 1_000) / heldMs).toFixed(0), ((cpu * 1_000) / seen).toFixed(0)],
    (await allLeft(child)) ? 'all' : String(await openStreams(child)),
  ];
}

/** Whether the worker is rid of its streams some time after their clients have left. */
async function allLeft(child: ChildProcess): Promise<boolean> {
  const end = performance.now() + leavingMs;
  while (performance.now() < end) {
    if ((await openStreams(child)) === 0) return true;
    await sleep(500);
  }
  return false;
}
