import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { extname, join } from 'node:path';
import { availableParallelism } from 'node:os';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { relaxCollector } from '@llm-d/config';
import {
  createMediaFetcher,
  defaultMediaFetchOptions,
  type MediaFetchOptions,
  type MediaFetcher,
  type MediaResult,
  type TransformRules,
} from '@llm-d/media';
import { connectRedis, type RedisClient, untilReady } from '@llm-d/redis';
import { Agent, request } from 'undici';
import { cores, freePort, pinLoad } from './cascade-process.ts';
import { type Helper, startHelper } from './child-process.ts';
import { imageOfBytes } from './media-images.ts';
import { median } from './median.ts';
import { printTable } from './print-table.ts';

const imageBytes = 315 * 1024;
/** Downloads of a round, and of them at the same time. */
const [perRound, parallel] = [400, 10];
/** Lookups of a sample; the median of one is that of a quiet moment. */
const lookups = 400;
const photos = 12;
const never = new AbortController().signal;
/** Read before anything is pinned. */
const allCores = `0-${availableParallelism() - 1}`;
const transform: TransformRules = {
  mode: 'fit',
  factor: 28,
  minPixels: 3_136,
  maxPixels: 1_003_520,
  output: 'auto',
  background: '#ffffff',
  bakesOrientation: false,
};

/** `bench media`: what a download costs beside a bare one, what a hit of the cache takes, who holds the event loop. */
export async function benchMedia(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { rounds: { type: 'string' } } });
  const rounds = Number(values.rounds ?? 7);
  // As the processes that fetch media do.
  relaxCollector();
  // The fetcher alone on one core; origin and Redis on the other.
  const isPinned = pinLoad();
  const origin = await startOrigin();
  const redisPort = await freePort();
  const redis = await startRedis(redisPort);
  if (isPinned) {
    execFileSync('taskset', ['-a', '-c', '-p', cores.tested, String(process.pid)]);
  } else {
    console.error('nothing is pinned to a core: figures are those of all of them together');
  }
  const base = `http://127.0.0.1:${origin.told[1]}`;
  try {
    await downloads(base, rounds);
    console.log();
    await hits(base, redisPort, rounds);
    console.log();
    // Sharp works beside the event loop, on whatever cores there are.
    if (isPinned) execFileSync('taskset', ['-a', '-c', '-p', allCores, String(process.pid)]);
    await delays(base);
  } finally {
    await Promise.all([origin.stop(), redis.stop()]);
  }
}

function startOrigin(): Promise<Helper> {
  const file = join(import.meta.dirname, `media-origin${extname(import.meta.filename)}`);
  const command = [process.execPath, ...process.execArgv, file, String(imageBytes)];
  return startHelper(command, /^(\d+)\n/);
}

const startRedis = (port: number): Promise<Helper> =>
  startHelper(
    ['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', ''],
    /ready to accept connections/i,
  );

const fetcherWith = (cache?: { redisUrl?: string; memory?: { maxBytes: number } }): MediaFetcher =>
  createMediaFetcher({ testOnlyAllowLoopback: true, ...(cache && { cache }) });

const fetchOne = (
  fetcher: MediaFetcher,
  url: string,
  changes: Partial<MediaFetchOptions> = {},
): Promise<MediaResult> =>
  fetcher.fetch({ url, modality: 'image' }, { ...defaultMediaFetchOptions, ...changes }, never);

/** CPU and wall time of one call in ms, with some at the same time. */
async function costOf(
  call: (index: number) => Promise<unknown>,
): Promise<[cpu: number, wall: number]> {
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < perRound) await call(next++);
  };
  await Promise.all(Array.from({ length: parallel }, work));
  const { user, system } = process.cpuUsage(cpu);
  return [(user + system) / 1000 / perRound, (performance.now() - start) / perRound];
}

async function downloads(base: string, rounds: number): Promise<void> {
  const dispatcher = new Agent({ connections: parallel, allowH2: false });
  const fetcher = fetcherWith();
  const bare = async (index: number): Promise<Buffer> => {
    const { body } = await request(`${base}/${index}`, { dispatcher });
    return Buffer.from(await body.arrayBuffer());
  };
  const kinds: [name: string, (index: number) => Promise<unknown>][] = [
    ['bare undici', bare],
    [
      'bare undici, SHA-256, base64',
      async (index) => {
        const bytes = await bare(index);
        return [hash('sha256', bytes, 'hex'), bytes.toString('base64')];
      },
    ],
    ['fetched and checked', (index) => fetchOne(fetcher, `${base}/${index}`)],
    [
      'fetched, checked, SHA-256, base64',
      async (index) => {
        const result = await fetchOne(fetcher, `${base}/${index}`);
        return [hash('sha256', result.bytes, 'hex'), result.base64()];
      },
    ],
  ];
  const costs = kinds.map(() => ({ cpu: [] as number[], wall: [] as number[] }));
  for (let round = 0; round <= rounds; round++) {
    for (const [i, [, call]] of kinds.entries()) {
      const [cpu, wall] = await costOf(call);
      // The first round warms up.
      if (round > 0) {
        costs[i]?.cpu.push(cpu);
        costs[i]?.wall.push(wall);
      }
    }
  }
  await fetcher.close();
  await dispatcher.close();
  const beside = [0, 0, 0, 1].map((i) => costs[i]?.cpu ?? []);
  printTable(
    ['315 KB from an origin', 'CPU ms', 'per s of one core', 'per s', 'CPU ratio', 'at most'],
    kinds.map(([name], i) => {
      const { cpu = [], wall = [] } = costs[i] ?? {};
      const ratio = median(cpu.map((ms, round) => ms / (beside[i]?.[round] ?? NaN)));
      return [
        name,
        median(cpu).toFixed(3),
        (1000 / median(cpu)).toFixed(0),
        (1000 / median(wall)).toFixed(0),
        ratio.toFixed(2),
        i < 2 ? '' : '1.4',
      ];
    }),
  );
}

/** Median time of one call in ms, one after the other. */
async function timeOf(call: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < lookups; i++) {
    const start = performance.now();
    await call();
    times.push(performance.now() - start);
  }
  return median(times);
}

async function hits(base: string, redisPort: number, rounds: number): Promise<void> {
  const redisUrl = `redis://127.0.0.1:${redisPort}`;
  const inMemory = fetcherWith({});
  // Without memory every look goes to Redis.
  const inRedis = fetcherWith({ redisUrl, memory: { maxBytes: 0 } });
  const client: RedisClient = connectRedis({
    url: redisUrl,
    name: 'bench',
    commandTimeoutMs: 1000,
  });
  await untilReady(client, AbortSignal.timeout(5_000));
  await client.set('bench', imageOfBytes(imageBytes));
  for (const fetcher of [inMemory, inRedis]) {
    let status: string | undefined;
    for (let i = 0; status !== 'hit' && i < 100; i++) {
      ({ status } = (await fetchOne(fetcher, `${base}/cached`)).facts.cache ?? {});
    }
    if (status !== 'hit') throw new Error('nothing was kept');
  }
  const kinds: [name: string, () => Promise<unknown>, target: string][] = [
    ['bare GETBUFFER', () => client.getBuffer('bench'), ''],
    ['hit in Redis', () => fetchOne(inRedis, `${base}/cached`), '1.5 x'],
    ['hit in memory', () => fetchOne(inMemory, `${base}/cached`), '0.1 ms'],
  ];
  const times = kinds.map((): number[] => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [i, [, call]] of kinds.entries()) {
      const ms = await timeOf(call);
      if (round > 0) times[i]?.push(ms);
    }
  }
  await Promise.all([inMemory.close(), inRedis.close()]);
  client.disconnect();
  printTable(
    ['315 KB from the cache', 'ms', 'ratio', 'at most'],
    kinds.map(([name, , target], i) => {
      const own = times[i] ?? [];
      const ratio = median(own.map((ms, round) => ms / (times[0]?.[round] ?? NaN)));
      return [name, median(own).toFixed(3), ratio.toFixed(2), target];
    }),
  );
}

async function delays(base: string): Promise<void> {
  const fetcher = fetcherWith();
  const kinds: [name: string, () => Promise<unknown>][] = [
    [
      `${perRound} downloads, SHA-256 and base64`,
      () =>
        costOf(async (index) => {
          const result = await fetchOne(fetcher, `${base}/${index}`);
          return [hash('sha256', result.bytes, 'hex'), result.base64()];
        }),
    ],
    [
      `${photos} photos of 12 MP shrunk`,
      () =>
        Promise.all(
          Array.from({ length: photos }, (_, i) =>
            fetchOne(fetcher, `${base}/photo${i}`, { transform, downloadTimeoutMs: 60_000 }),
          ),
        ),
    ],
  ];
  await fetchOne(fetcher, `${base}/photo`, { transform }); // loads sharp
  const rows: string[][] = [];
  for (const [name, work] of kinds) {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const start = performance.now();
    delay.enable();
    await work();
    delay.disable();
    const [p99, most] = [delay.percentile(99), delay.max].map((ns) => (ns / 1e6).toFixed(1));
    rows.push([name, `${(performance.now() - start).toFixed(0)}`, p99 ?? '', most ?? '', '30']);
  }
  await fetcher.close();
  printTable(['the event loop is held by', 'in ms', 'p99 ms', 'longest ms', 'at most'], rows);
}
