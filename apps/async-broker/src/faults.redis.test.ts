import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { startTcpRelay } from '@llm-d/testing';
import { Rig, until } from './testing.ts';

// Failure table 5 and pitfalls 6 as far as no process has to die; `tools/e2e/src/async-faults.e2e.ts` has the others.
jest.setTimeout(40_000);

/** An answer that is given when the test says so. */
function heldAnswer() {
  let free = (): void => {};
  const held = new Promise<void>((resolve) => (free = resolve));
  return { answer: { text: 'held', delay: held }, free: () => free() };
}
const bodyOf = (outcome: unknown): string | undefined =>
  (outcome as { body?: Buffer } | undefined)?.body?.toString();
const stored = (rig: Rig, ref: Awaited<ReturnType<Rig['submit']>>): Promise<string | undefined> =>
  rig.outcome(ref).then(bodyOf);
const untilEmpty = (rig: Rig): Promise<void> =>
  until(async () => {
    const { open, waiting, active } = await rig.broker.backlog(rig.lane);
    return open + waiting + active === 0;
  });

describe('tickets and records that disagree', () => {
  it.concurrent(
    'F6 worker dies after finish, before the ticket is done: nothing runs again',
    async () => {
      await using rig = await Rig.open({ isStarted: false });
      const ref = await rig.submit();
      const { dispatch } = rig.broker;
      expect(await dispatch.begin(ref, 'dead')).toMatchObject({ kind: 'run' });
      const outcome = { kind: 'response', status: 200, body: Buffer.from('first') } as const;
      await dispatch.finish(ref, 'dead', outcome);
      await rig.start();
      await untilEmpty(rig);
      expect(await stored(rig, ref)).toBe('first');
      expect(rig.upstream.calls).toHaveLength(0);
    },
  );

  it.concurrent('a second delivery is fenced: the first outcome stays', async () => {
    const { answer, free } = heldAnswer();
    await using rig = await Rig.open({ script: answer });
    const ref = await rig.submit();
    await rig.upstream.received(0);
    const { dispatch } = rig.broker;
    expect(await dispatch.begin(ref, 'other')).toMatchObject({ kind: 'run' });
    const outcome = { kind: 'response', status: 200, body: Buffer.from('other') } as const;
    expect(await dispatch.finish(ref, 'other', outcome)).toBe('stored');
    free();
    await untilEmpty(rig);
    expect(await stored(rig, ref)).toBe('other');
  });

  it.concurrent('F31 body key expired early: 502 body lost, counted, and no dispatch', async () => {
    await using rig = await Rig.open({ isStarted: false });
    const ref = await rig.submit({ id: 'x' });
    const [, key = ''] =
      /\n(ab:\{[^}]+~x\}:body)/.exec(await rig.redis.command('KEYS', 'ab:*')) ?? [];
    await rig.redis.command('DEL', key.trim());
    await rig.start();
    expect(await rig.outcome(ref)).toMatchObject({ code: 'INFERENCE_ERROR' });
    expect(rig.upstream.calls).toHaveLength(0);
    const counter = 'llm_d_async_broker_results_total{outcome="INFERENCE_ERROR"}';
    expect(await rig.metric(counter)).toBe(1);
  });

  it.concurrent(
    'F30 lane removed from the configuration with a backlog: still served',
    async () => {
      await using rig = await Rig.open({
        isStarted: false,
        config: { lanes: [{ name: 'lane-b' }] },
      });
      const before = await Rig.producer(rig, 'lane-a');
      const result = await before.submit(rig.submission());
      await before.close();
      await rig.start();
      if (!('generation' in result)) throw new Error(result.kind);
      expect(await rig.outcome(result)).toMatchObject({ status: 200 });
    },
  );

  it.concurrent('P3: ids that are words of BullMQ run like others', async () => {
    await using rig = await Rig.open();
    const ids = [
      'meta',
      'active',
      'wait',
      'delayed',
      'events',
      'completed',
      'stalled',
      '-5',
      '123',
      '0',
    ];
    const refs = await Promise.all(ids.map((id) => rig.submit({ id })));
    for (const ref of refs) expect(await rig.outcome(ref)).toMatchObject({ status: 200 });
    expect(rig.upstream.calls).toHaveLength(ids.length);
  });

  it.concurrent('F27 two POSTs of the same id at the same instant: one run', async () => {
    await using rig = await Rig.open();
    const both = await Promise.all([rig.submit({ id: 'same' }), rig.submit({ id: 'same' })]);
    expect(both.map(({ kind }) => kind).toSorted()).toEqual(['live', 'new']);
    await stored(rig, both[0]);
    await untilEmpty(rig);
    expect(rig.upstream.calls).toHaveLength(1);
  });

  it.concurrent(
    'F26 DELETE races with finish: gone either way, never a result after it',
    async () => {
      await using rig = await Rig.open();
      for (let round = 0; round < 40; round += 1) {
        const ref = await rig.submit();
        await sleep(round % 8);
        await rig.broker.cancel(ref);
        expect(await rig.broker.fetch(ref)).toEqual({ kind: 'unknown' });
      }
      await untilEmpty(rig);
    },
  );
});

/** As buttons of a board do: the failed ticket is in the queue again, and somebody takes it. */
async function retryByHand(rig: Rig): Promise<void> {
  const connection = new Redis(rig.redis.url, { maxRetriesPerRequest: null });
  const options = { connection, prefix: `{ab:${rig.lane}}`, skipMetasUpdate: true };
  const queue = new Queue(rig.lane, options);
  const [job] = await queue.getFailed();
  await job?.retry();
  await until(async () => (await queue.getJobCountByTypes('wait', 'prioritized', 'active')) === 0);
  expect(job).toBeDefined();
  await queue.close();
  connection.disconnect();
}

describe('a request that kills its workers (F7, P11 to P13)', () => {
  it.concurrent(
    'ends with 502 at the sixth stall, also when its ticket is retried by hand, and the next one runs',
    async () => {
      await using rig = await Rig.open({ isStarted: false });
      const ref = await rig.submit();
      const closings: Promise<void>[] = [];
      for (let stall = 0; stall < 6; stall += 1) {
        const dying = await Rig.producer(rig, rig.lane);
        const { promise: taken, resolve: take } = Promise.withResolvers<void>();
        const handle = (): Promise<never> => {
          take();
          return new Promise(() => {});
        };
        const options = { lane: rig.lane, handle, lockMs: 300, stalledIntervalMs: 100 };
        const worker = await dying.openLaneWorker(options, AbortSignal.timeout(10_000));
        await taken;
        // Its connections end in the middle of the work, as those of a process that is killed.
        await dying.close();
        closings.push(worker.close());
      }
      await rig.start();
      const ended = { kind: 'error', code: 'INFERENCE_ERROR' };
      expect(await rig.outcome(ref)).toMatchObject(ended);
      await retryByHand(rig);
      expect(rig.upstream.calls).toHaveLength(0);
      expect(await rig.outcome(await rig.submit())).toMatchObject({ status: 200 });
      expect(await rig.outcome(ref)).toMatchObject(ended);
      await Promise.all(closings);
    },
  );
});

describe('Redis that fails', () => {
  it.concurrent(
    'F9 restarts: what runs is stored, what waits runs after it (P15 to P17)',
    async () => {
      const { answer, free } = heldAnswer();
      await using rig = await Rig.open({
        script: answer,
        config: { dispatch: { slots: 1 } },
      });
      const running = await rig.submit();
      await rig.upstream.received(0);
      const waiting = await rig.submit();
      await rig.redis.kill();
      const refusedAt = performance.now();
      await expect(rig.submit()).rejects.toMatchObject({ name: 'BrokerUnavailableError' });
      expect(performance.now() - refusedAt).toBeLessThan(200);
      free();
      await sleep(1_500);
      await rig.redis.restart();
      await until(() => rig.broker.health().isReady);
      expect(await stored(rig, running)).toBe('held');
      expect(await stored(rig, waiting)).toBe('held');
    },
  );

  it.concurrent('freezes for longer than the lock: one result, which stays (4.8)', async () => {
    await using rig = await Rig.open({ script: { text: 'ok', delay: 300 } });
    const ref = await rig.submit();
    await rig.upstream.received(0);
    rig.redis.freeze();
    await sleep(3_500);
    rig.redis.thaw();
    await until(() => rig.broker.health().isReady);
    expect(await stored(rig, ref)).toBe('ok');
    await untilEmpty(rig);
    expect(await stored(rig, ref)).toBe('ok');
  });

  it.concurrent(
    'F13 is full: results wait in the worker and are stored when there is room (P7)',
    async () => {
      const { answer, free } = heldAnswer();
      await using rig = await Rig.open({ script: answer });
      const ref = await rig.submit();
      await rig.upstream.received(0);
      await rig.redis.fill();
      free();
      const before = rig.lines.length;
      await sleep(1_500);
      expect(await rig.broker.fetch(ref)).toMatchObject({ kind: 'pending' });
      // An idle worker that is not paused asks a full server thousands of times a second.
      expect(rig.lines.length - before).toBeLessThan(50);
      await rig.redis.command('CONFIG', 'SET', 'maxmemory', '256mb');
      expect(await stored(rig, ref)).toBe('held');
      await until(
        () => rig.broker.health().isReady && rig.broker.health().memoryRatio < 0.5,
        35_000,
      );
      expect(await rig.outcome(await rig.submit())).toMatchObject({ status: 200 });
    },
  );

  it.concurrent('is down at a SIGTERM: the processor stops all the same (P21)', async () => {
    await using rig = await Rig.open();
    await rig.redis.kill();
    const stoppedAt = performance.now();
    await rig.stop();
    expect(performance.now() - stoppedAt).toBeLessThan(8_000);
  });

  it.concurrent('was never there at the start: not ready, works when it comes (P22)', async () => {
    await using rig = await Rig.open({ isStarted: false });
    await rig.redis.kill();
    await rig.start(false);
    expect((await rig.get('/readyz')).status).toBe(503);
    await rig.redis.restart();
    await until(async () => (await rig.get('/readyz')).status === 200);
    await until(() => rig.broker.health().isReady);
    expect(await rig.outcome(await rig.submit())).toMatchObject({ status: 200 });
  });
});

describe('a network that is cut', () => {
  it.concurrent(
    'F15 between one worker and Redis alone: another runs it, and the first outcome stays',
    async () => {
      const { answer, free } = heldAnswer();
      await using rig = await Rig.open({ isStarted: false, script: answer });
      await using relay = await startTcpRelay(rig.redis.url);
      rig.brokerRedis = { url: relay.url };
      await rig.start();
      const ref = await rig.submit();
      await rig.upstream.received(0);
      relay.cut();
      const other = await Rig.producer(rig, rig.lane);
      const outcome = { kind: 'response', status: 200, body: Buffer.from('other') } as const;
      const worker = await other.openLaneWorker(
        {
          lane: rig.lane,
          handle: async (ticket) => {
            await other.dispatch.begin(ticket, 'other');
            await other.dispatch.finish(ticket, 'other', outcome);
            return { kind: 'done' };
          },
          ...{ lockMs: 2_000, stalledIntervalMs: 500 },
        },
        AbortSignal.timeout(10_000),
      );
      expect(await stored(rig, ref)).toBe('other');
      free();
      relay.mend();
      await until(async () => (await rig.get('/readyz')).status === 200);
      await untilEmpty(rig);
      expect(await stored(rig, ref)).toBe('other');
      await worker.close();
      await other.close();
    },
  );
});

describe('a worker that stopped without a word (P17 to P19)', () => {
  it.concurrent('is replaced, and the lane goes on', async () => {
    const worker = { lock: '2s', stalled_interval: '500ms', stuck_after: '1s' };
    await using rig = await Rig.open({ config: { worker } });
    // BullMQ's own pause is the one way to have a worker do nothing that says it works.
    await rig.redis.command('HSET', '{ab:lane-a}:lane-a:meta', 'paused', '1');
    const ref = await rig.submit();
    await until(() => rig.lines.some(({ msg }) => String(msg).includes('replaced')));
    await rig.redis.command('HDEL', '{ab:lane-a}:lane-a:meta', 'paused');
    expect(await rig.outcome(ref)).toMatchObject({ status: 200 });
  });
});

describe('the end of a processor (4.13)', () => {
  it.concurrent('lets short calls end and gives long ones back with their turn', async () => {
    await using rig = await Rig.open({
      script: [{ text: 'short', delay: 300 }, { beforeHeaders: 'hang' }, { text: 'again' }],
      config: { drain_timeout: '800ms' },
    });
    const short = await rig.submit();
    await rig.upstream.received(0);
    const long = await rig.submit();
    const call = await rig.upstream.received(1);
    await rig.stop();
    expect(call.aborted).toBe(true);
    expect(await stored(rig, short)).toBe('short');
    expect(await rig.broker.backlog(rig.lane)).toMatchObject({ active: 0, open: 1 });
    await rig.start();
    expect(await stored(rig, long)).toBe('again');
  });
});
