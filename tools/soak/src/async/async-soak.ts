import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { startRedis } from '@llm-d/testing/redis';
import { type AuditResult } from './audit.ts';
import { usedMemoryMb } from './audit-redis.ts';
import { Journal } from './journal.ts';
import { LogRate } from './log-rate.ts';
import { ServiceProcess } from './service-process.ts';
import { SoakClients } from './soak-clients.ts';
import { lifetimes, type SoakForm, soakForms, soakLanes, type SoakFormName } from './soak-form.ts';
import { playFaults } from './soak-faults.ts';
import { startTarget } from './target.ts';

/** What a soak says in the end; no faults = passed. */
export interface AsyncSoakResult extends AuditResult {
  readonly form: SoakFormName;
  readonly kills: { readonly workers: number; readonly apis: number };
  readonly redis: { readonly keys: number; readonly usedMb: number };
}

const workers = 2;
const memory = '512mb';

/**
 * Queued requests through the built coordinator, workers and Redis while all three die and suffer, judged by an auditor
 * process over what clients were told.
 */
export async function asyncSoak(name: SoakFormName): Promise<AsyncSoakResult> {
  const form: SoakForm = soakForms[name];
  await using cleanup = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'soak-async-'));
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  const redis = await startRedis([
    ...['--appendonly', 'yes', '--appendfsync', 'everysec'],
    ...['--maxmemory', memory, '--maxmemory-policy', 'noeviction'],
  ]);
  cleanup.use(redis);
  const ran = new Journal(join(folder, 'ran.jsonl'));
  const told = new Journal(join(folder, 'told.jsonl'));
  const answered = new Journal(join(folder, 'answered.jsonl'));
  const broken = new Journal(join(folder, 'broken.jsonl'));
  const ordered = new Journal(join(folder, 'ordered.jsonl'));
  const target = await startTarget(ran, answered);
  cleanup.defer(() => target.close());

  const log = new LogRate();
  const api = cleanup.use(
    await ServiceProcess.start(
      'coordinator',
      (port) => coordinatorConfig(port, target.url, redis.url),
      (line) => log.add('coordinator', line),
    ),
  );
  await api.ready();
  const clients = new SoakClients({
    url: api.url,
    journal: told,
    timeoutSeconds: form.timeoutSeconds,
  });
  const probe = new Redis(redis.url);
  // Before any worker runs, and then one at a time: what runs first is what stood in front.
  await clients.enqueueOrdered(ordered);
  await probe.hset('{ab:ordered}:ordered:meta', 'concurrency', 1);
  const processors: ServiceProcess[] = [];
  for (let i = 0; i < workers; i += 1) {
    processors.push(
      cleanup.use(
        await ServiceProcess.start(
          'async-broker',
          (port) => processorConfig(port, target.url, redis.url, form),
          (line) => log.add(`async-broker ${i}`, line),
        ),
      ),
    );
  }
  await Promise.all(processors.map((service) => service.ready()));
  clients.fetchOrdered();
  while ((await probe.zcard('{ab:ordered}:open')) > 0) await sleep(50);
  const baselineMb = await usedMemoryMb(probe);
  probe.disconnect();

  const stop = new AbortController();
  const faults = playFaults({
    ...{ form, redis, api, processors, memory },
    ...{ journal: broken, signal: stop.signal },
  });
  const startedAt = performance.now();
  while (performance.now() - startedAt < form.loadMs) {
    clients.begin();
    // Poisson arrivals: also bursts, not only a beat.
    await sleep((-Math.log(1 - Math.random()) * 1_000) / form.requestsPerSecond);
  }
  stop.abort();
  const kills = await faults;
  await clients.settled();
  await Promise.all([told, ran, answered, broken, ordered].map((journal) => journal.close()));

  // Built, also when this file runs from its source in a test.
  const auditor = fileURLToPath(new URL('../../dist/async/audit-main.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...[auditor, folder, redis.url, name, String(baselineMb)],
  ]);
  // The auditor's own line.
  const result = JSON.parse(stdout) as AuditResult & { redis: AsyncSoakResult['redis'] };
  return { form: name, ...result, kills, faults: [...result.faults, ...log.faults()] };
}

function coordinatorConfig(port: number, target: string, redisUrl: string): object {
  return {
    log_level: 1,
    server: { listen_addr: `127.0.0.1:${port}`, metrics_port: 0 },
    gateway: { address: target },
    pipeline: {
      kv_connector: 'kv-none',
      steps: [
        {
          type: 'async-broker',
          params: {
            redis_url: redisUrl,
            routes: soakLanes.map(({ lane, ...route }) => ({ ...route, queue: lane })),
            result_ttl_seconds: lifetimes.result,
            fetch_grace_seconds: lifetimes.fetchGrace,
          },
        },
        { type: 'decode' },
      ],
    },
  };
}

/** Calls go to the target itself: through a coordinator that is killed they would arrive at times that prove nothing. */
function processorConfig(port: number, target: string, redisUrl: string, form: SoakForm): object {
  return {
    listen: `127.0.0.1:${port}`,
    log_level: 1,
    redis: { url: redisUrl },
    lanes: soakLanes.map(({ lane }) => ({ name: lane })),
    tenants: { 'team-0': { concurrency: 2 } },
    dispatch: { address: target },
    worker: form.lock,
    result_ttl: `${lifetimes.result}s`,
  };
}
