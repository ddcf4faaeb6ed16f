import { setTimeout as sleep } from 'node:timers/promises';
import { type RedisServer } from '@llm-d/testing/redis';
import { type Broken, type Journal } from './journal.ts';
import { type ServiceProcess } from './service-process.ts';
import { type SoakForm } from './soak-form.ts';

/** What is broken, and until when. */
export interface FaultPlan {
  readonly form: SoakForm;
  readonly redis: RedisServer;
  readonly api: ServiceProcess;
  readonly processors: readonly ServiceProcess[];
  /** What Redis may use after the squeeze. */
  readonly memory: string;
  readonly signal: AbortSignal;
  readonly journal: Journal;
}

const restartPauseMs = 300;

/** Breaks things until the signal; resolves when all is mended, with what was killed. */
export async function playFaults(plan: FaultPlan): Promise<{ workers: number; apis: number }> {
  const { form, redis, api, processors, memory, signal, journal } = plan;
  const kills = { workers: 0, apis: 0 };
  const pause = (ms: number): Promise<unknown> =>
    sleep(ms, undefined, { signal }).catch(() => undefined);
  const note = async (what: string, breaking: () => Promise<unknown>): Promise<void> => {
    const from = Date.now();
    await breaking();
    journal.write({ from, to: Date.now(), what } satisfies Broken);
  };
  const killAgain = async (service: ServiceProcess): Promise<void> => {
    await service.kill();
    await sleep(restartPauseMs);
    service.launch();
    // On a busy machine a start takes longer than the pause between kills: one of several stays alive.
    while (!signal.aborted && !(await service.isReady())) await pause(restartPauseMs);
  };
  const killWorkers = async (): Promise<void> => {
    for (let next = 0; ; next += 1) {
      await pause(form.workerKillMs);
      if (signal.aborted) return;
      const service = processors[next % processors.length];
      if (service) await note('worker', () => killAgain(service));
      kills.workers += 1;
    }
  };
  const killApi = async (): Promise<void> => {
    for (;;) {
      await pause(form.apiKillMs);
      if (signal.aborted) return;
      await note('api', () => killAgain(api));
      kills.apis += 1;
    }
  };
  const hurtRedis = async (): Promise<void> => {
    const startedAt = performance.now();
    const at = (ms: number): Promise<unknown> => pause(ms - (performance.now() - startedAt));
    await at(form.freeze.atMs);
    await note('redis frozen', async () => {
      redis.freeze();
      await pause(form.freeze.forMs);
      redis.thaw();
    });
    await at(form.restartAtMs);
    await note('redis restarted', () => redis.restart());
    await at(form.squeeze.atMs);
    await note('redis full', async () => {
      await redis.command('CONFIG', 'SET', 'maxmemory', '1');
      await pause(form.squeeze.forMs);
      await redis.command('CONFIG', 'SET', 'maxmemory', memory);
    });
  };
  await Promise.all([killWorkers(), killApi(), hurtRedis()]);
  return kills;
}
