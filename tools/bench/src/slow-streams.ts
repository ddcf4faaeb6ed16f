import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeCase } from './cascade-cases.ts';
import { type CascadeProcess } from './cascade-process.ts';
import { cpuMs, descendants } from './cpu-time.ts';
import { median } from './median.ts';
import { type StubUpstream } from './stub-upstream.ts';

const path = '/v1/chat/completions';
const promptBytes = 2048;
const [slowStreams, openStreams] = [400, 1000];
/** Every stream lasts so many chunks, this far apart. */
const [events, chunkMs] = [40, 100];

/** What many streams at the same time cost. */
export interface StreamFigures {
  /** CPU of 400 slow streams from the first request to the last byte, in milliseconds for each. */
  readonly cpuMs: number;
  /** Growth of the resident memory while 1,000 streams are open, in KB for each. */
  readonly kbEach: number;
  /** Streams that were open at the upstream at the same time when 1,000 clients had their first byte. */
  readonly open: number;
}

const slow = makeCase(
  { promptBytes, tokens: 400, events },
  { name: 'slow streams', requests: slowStreams, parallel: slowStreams, target: 1.2, chunkMs },
);

/** Measures one cascade; it must have been warmed up. */
export async function slowStreamFigures(
  target: CascadeProcess,
  stub: StubUpstream,
  rounds: number,
): Promise<StreamFigures> {
  stub.current = slow;
  const cpu: number[] = [];
  for (let i = 0; i <= rounds; i++) {
    const before = cpuMs(target.pid);
    const streams = await openAll(target, slowStreams);
    await Promise.all(streams.map(({ end }) => end));
    // The first round warms up.
    if (i > 0) cpu.push((cpuMs(target.pid) - before) / slowStreams);
  }
  await sleep(1000);
  const restingKb = residentKb(target.pid);
  const streams = await openAll(target, openStreams);
  const open = stub.openStreams;
  const kbEach = (residentKb(target.pid) - restingKb) / openStreams;
  await Promise.all(streams.map(({ end }) => end));
  return { cpuMs: median(cpu), kbEach, open };
}

/** Starts streams at the same time; resolves when each has its first byte. */
async function openAll(target: CascadeProcess, count: number): Promise<{ end: Promise<void> }[]> {
  const headers = { 'content-type': 'application/json' };
  const open = async (): Promise<{ end: Promise<void> }> => {
    const { statusCode, body } = await target.pool.request({
      ...{ method: 'POST', path, headers, body: slow.body },
    });
    if (statusCode !== 200) throw new Error(`${target.name}, ${slow.name}: status ${statusCode}`);
    const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    await chunks.next();
    const drain = async (): Promise<void> => {
      while (!(await chunks.next()).done);
    };
    return { end: drain() };
  };
  return Promise.all(Array.from({ length: count }, open));
}

/** Resident memory of a process and its living descendants. */
export function residentKb(pid: number): number {
  return descendants(pid)
    .map((id) => /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1])
    .reduce((sum, kb) => sum + Number(kb ?? 0), 0);
}
