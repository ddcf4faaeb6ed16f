import { fork } from 'node:child_process';
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MediaFetchOptions, type MediaSettings } from '@llm-d/media';
import { startHostileOrigin } from './hostile-origin.ts';
import { type MediaOrder, type MediaReport } from './media-child.ts';
import { Random } from './random.ts';

/** How long the origins are asked. */
export interface MediaSoakOptions {
  readonly seconds: number;
  /** The same seed asks the same kinds in the same order. */
  readonly seed: number;
  /** Requests per second; 100 when absent. */
  readonly rate?: number;
}

/** What came of it. */
export interface MediaSoakResult {
  readonly requests: number;
  /** Ends by kind of origin and code. */
  readonly ends: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Longest time of a request. */
  readonly longestMs: number;
  /** How late the fetcher's event loop was at most: on a busy machine it waits for its core. */
  readonly ownLagMs: number;
  /** Resident memory of the fetcher: before the first request, the most of it, and at rest. */
  readonly residentMb: Readonly<Record<'start' | 'peak' | 'end' | 'limit', number>>;
  /** The most of it in each quarter of the run. */
  readonly quartersMb: readonly number[];
  readonly openSockets: number;
  /** What must not happen; empty when all is well. */
  readonly faults: readonly string[];
}

const mebibyte = 1024 * 1024;
const [bufferedMb, cacheMb] = [64, 16];
/** Two images of 12 MP decoded at the same time, and what sharp holds beside them. */
const decodedMb = 128;
/** Bodies and base64 that wait for a collection, and what the allocator keeps: at most 165 MB were seen, on a starved machine. */
const uncollectedMb = 192;
/** How much more the last quarter of a long run may take than the one before. */
const maxGrowthMb = 64;
const longRunSeconds = 100;
const timeoutMs = 2_000;
/** How much later than its deadline a request may end on a machine with other work. */
const graceMs = 1_500;
const stateEveryMs = 250;
const maxFaults = 20;

const settings: MediaSettings = {
  testOnlyAllowLoopback: true,
  limits: {
    globalMaxBufferedBytes: bufferedMb * mebibyte,
    // Origins that never answer hold a place for their whole time, at this rate many of them.
    globalMaxDownloads: 256,
    maxConnectionsPerHost: 512,
    maxParallelTransforms: 2,
    maxImagePixels: 12_000_000,
    headersTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
    minRateWindowMs: 1_000,
    retryPauseMs: 20,
  },
  cache: { memory: { maxBytes: cacheMb * mebibyte } },
};

const options: Partial<MediaFetchOptions> = {
  downloadTimeoutMs: timeoutMs,
  transform: {
    mode: 'fit',
    factor: 28,
    minPixels: 3_136,
    maxPixels: 500_000,
    output: 'auto',
    background: '#ffffff',
    bakesOrientation: false,
  },
};

/** Fetches from hostile origins at a steady rate, and looks at the answers and at the memory of the fetcher. */
export async function mediaSoak(given: MediaSoakOptions): Promise<MediaSoakResult> {
  const { seconds, seed, rate = 100 } = given;
  const faults: string[] = [];
  const fault = (what: string): void => {
    if (faults.length < maxFaults) faults.push(what);
  };
  const origin = await startHostileOrigin();
  const kinds = [...origin.kinds.keys()];
  const file = join(import.meta.dirname, `media-child${extname(import.meta.filename)}`);
  const child = fork(file, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  child.once('exit', (code) => {
    if (!isOver) fault(`the fetcher ended with ${code}`);
  });
  let isOver = false;
  let start = performance.now();
  const order = (what: MediaOrder): void => void child.send(what);
  const reports = {
    asked: new Map<number, string>(),
    ends: {} as Record<string, Record<string, number>>,
    longestMs: 0,
    peakBytes: 0,
    /** The most of each quarter of the run. */
    quarters: [] as number[],
    residentBytes: 0,
    stats: {},
    lagMs: 0,
  };
  child.on('message', (report: MediaReport) => {
    if (report.kind === 'state') {
      reports.residentBytes = report.residentBytes;
      reports.peakBytes = Math.max(reports.peakBytes, report.residentBytes);
      const quarter = Math.min(3, Math.floor(((performance.now() - start) / 1000 / seconds) * 4));
      reports.quarters[quarter] = Math.max(reports.quarters[quarter] ?? 0, report.residentBytes);
      reports.stats = report.stats;
      reports.lagMs = report.lagMs;
    } else if (report.kind === 'end') {
      const { id, code, ms } = report;
      const kind = reports.asked.get(id) ?? '';
      reports.asked.delete(id);
      const codes = (reports.ends[kind] ??= {});
      codes[code] = (codes[code] ?? 0) + 1;
      reports.longestMs = Math.max(reports.longestMs, ms);
      // Its own limits, or those of a machine that is too slow for the rate.
      const isExpected = origin.kinds.get(kind)?.includes(code) === true;
      if (!isExpected && code !== 'media_overloaded' && code !== 'media_timeout') {
        fault(`request ${id}: ${kind} ended with ${code}`);
      }
    }
  });
  const ready = once(child, 'message');
  order({ kind: 'start', settings, options });
  await ready;
  const stateNow = async (): Promise<void> => {
    order({ kind: 'state' });
    await once(child, 'message');
  };
  await stateNow();
  const startBytes = reports.residentBytes;
  const limitBytes = startBytes + (bufferedMb + cacheMb + decodedMb + uncollectedMb) * mebibyte;

  const watch = setInterval(() => {
    order({ kind: 'state' });
  }, stateEveryMs);
  const random = new Random(seed);
  start = performance.now();
  let requests = 0;
  while (performance.now() - start < seconds * 1000 && child.exitCode === null) {
    const due = ((performance.now() - start) / 1000) * rate;
    for (; requests < due; requests++) {
      const kind = kinds[random.below(kinds.length)] ?? '';
      reports.asked.set(requests, kind);
      // Some are asked for again, so that the cache has something to do.
      order({ kind: 'fetch', id: requests, url: origin.url(kind, random.below(requests + 1)) });
    }
    await sleep(5);
  }
  // A machine that is behind gets the time to come to rest.
  const restBy = performance.now() + timeoutMs + graceMs + 10_000;
  while (reports.asked.size > 0 && performance.now() < restBy) await sleep(20);
  for (const [id, kind] of reports.asked) fault(`request ${id}: ${kind} has no end`);
  // Connections that nobody uses end after four seconds.
  while (origin.openSockets() > 0 && performance.now() < restBy + 10_000) await sleep(50);
  clearInterval(watch);
  await stateNow();

  const { longestMs, lagMs } = reports;
  if (longestMs > timeoutMs + graceMs + 2 * lagMs) {
    fault(`a request took ${Math.round(longestMs)} ms, its deadline is ${timeoutMs}`);
  }
  if (reports.peakBytes > limitBytes) {
    fault(
      `the fetcher took ${toMb(reports.peakBytes)} MB, at most ${toMb(limitBytes)} are configured`,
    );
  }
  const [third = 0, last = 0] = reports.quarters.slice(2);
  if (seconds >= longRunSeconds && last - third > maxGrowthMb * mebibyte) {
    fault(`the fetcher grew from ${toMb(third)} to ${toMb(last)} MB`);
  }
  if (Object.values(reports.stats).some((value) => value !== 0)) {
    fault(`at rest the fetcher holds ${JSON.stringify(reports.stats)}`);
  }
  if (origin.openSockets() > 0) fault(`${origin.openSockets()} sockets stay open`);
  isOver = true;
  const result: MediaSoakResult = {
    requests,
    ends: reports.ends,
    longestMs: Math.round(longestMs),
    ownLagMs: Math.round(lagMs),
    residentMb: {
      start: toMb(startBytes),
      peak: toMb(reports.peakBytes),
      end: toMb(reports.residentBytes),
      limit: toMb(limitBytes),
    },
    quartersMb: reports.quarters.map(toMb),
    openSockets: origin.openSockets(),
    faults,
  };
  child.disconnect();
  origin.close();
  return result;
}

const toMb = (bytes: number): number => Math.round(bytes / mebibyte);
