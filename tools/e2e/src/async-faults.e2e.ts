import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { until } from '@llm-d/soak';
import { AsyncRig } from './async-rig.ts';

/** Answers every call with its number, so that two runs can be told apart. */
const counting = () => {
  let run = 0;
  return () => ({ json: { run: (run += 1) } });
};
const bodyOf = (outcome: unknown): string =>
  (outcome as { body?: Buffer }).body?.toString() ?? JSON.stringify(outcome);

describe('a worker that dies (failure table 5)', () => {
  it('SIGKILL mid-call: the request runs on another worker and has one result', async () => {
    await using rig = await AsyncRig.open([{ beforeHeaders: 'hang' }, { json: { run: 2 } }]);
    const ref = await rig.submit();
    await rig.target.received(0);
    await rig.workers[0]?.kill();
    await rig.addWorker();
    const killedAt = performance.now();
    expect(bodyOf(await rig.outcome(ref))).toBe('{"run":2}');
    // Lock + two intervals, and what two cores need for the rest.
    expect(performance.now() - killedAt).toBeLessThan(5_000);
    expect(rig.target.calls).toHaveLength(2);
  });

  it('again and again on one request (poison, P11 to P13): 502 at the sixth stall', async () => {
    await using rig = await AsyncRig.open({ beforeHeaders: 'hang' });
    const ref = await rig.submit();
    const [worker] = rig.workers;
    for (let start = 0; start < 6; start += 1) {
      await rig.target.received(start);
      await worker?.kill();
      worker?.launch();
    }
    expect(await rig.outcome(ref)).toMatchObject({ kind: 'error', code: 'INFERENCE_ERROR' });
    expect(rig.target.calls).toHaveLength(6);
    const next = rig.submit();
    rig.target.play({ json: { next: true } });
    expect(bodyOf(await rig.outcome(await next))).toBe('{"next":true}');
  });

  it('after it stored the result, before its ticket is done: nothing runs again', async () => {
    await using rig = await AsyncRig.open(counting(), 0);
    const ref = await rig.submit();
    const token = 'a-worker-that-died';
    expect(await rig.broker.dispatch.begin(ref, token)).toMatchObject({ kind: 'run' });
    const outcome = { kind: 'response', status: 200, body: Buffer.from('first') } as const;
    await rig.broker.dispatch.finish(ref, token, outcome);
    await rig.addWorker();
    await until('the ticket is gone', async () => {
      const { waiting, active } = await rig.broker.backlog('lane-a');
      return waiting + active === 0 || undefined;
    });
    expect(bodyOf(await rig.outcome(ref))).toBe('first');
    expect(rig.target.calls).toHaveLength(0);
  });

  it('whose event loop stood still (P9, P10): one of two results is kept, both runs end', async () => {
    let free = (): void => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    let run = 0;
    await using rig = await AsyncRig.open(() => {
      run += 1;
      return run === 1 ? { json: { run }, delay: held } : { json: { run } };
    });
    const ref = await rig.submit();
    await rig.target.received(0);
    rig.workers[0]?.signal('SIGSTOP');
    await rig.addWorker();
    const first = bodyOf(await rig.outcome(ref));
    expect(first).toBe('{"run":2}');
    free();
    rig.workers[0]?.signal('SIGCONT');
    await sleep(500);
    expect(bodyOf(await rig.outcome(ref))).toBe(first);
    const again = await rig.submit();
    expect(bodyOf(await rig.outcome(again))).toMatch(/"run":3/);
  });
});

describe('Redis that fails (failure table 5)', () => {
  it('restarts: what runs goes on and is stored, what waits runs after it (P15 to P17)', async () => {
    let free = (): void => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    await using rig = await AsyncRig.open(() => ({ json: { ok: true }, delay: held }), 1, {
      lanes: [{ name: 'lane-a' }],
    });
    const running = await rig.submit();
    await rig.target.received(0);
    await rig.redis.kill();
    const refusedAt = performance.now();
    await expect(rig.submit()).rejects.toMatchObject({ name: 'BrokerUnavailableError' });
    expect(performance.now() - refusedAt).toBeLessThan(200);
    free();
    await sleep(1_500);
    await rig.redis.restart();
    expect(bodyOf(await rig.outcome(running))).toBe('{"ok":true}');
    const next = await until('the broker takes work', () => rig.submit().catch(() => undefined));
    expect(bodyOf(await rig.outcome(next))).toBe('{"ok":true}');
  });

  it('freezes for longer than the lock: the result that was there first stays (4.8)', async () => {
    await using rig = await AsyncRig.open(
      (() => {
        let run = 0;
        return () => ({ json: { run: (run += 1) }, delay: 500 });
      })(),
      2,
    );
    const ref = await rig.submit();
    await rig.target.received(0);
    rig.redis.freeze();
    await sleep(3_000);
    rig.redis.thaw();
    const outcome = bodyOf(await rig.outcome(ref));
    await sleep(1_500);
    expect(bodyOf(await rig.outcome(ref))).toBe(outcome);
    await until('the lane is empty', async () => {
      const { open, waiting, active } = await rig.broker.backlog('lane-a');
      return open + waiting + active === 0 || undefined;
    });
  });

  it('is full: results wait in the worker, and are stored when there is room (P7)', async () => {
    let free = (): void => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    await using rig = await AsyncRig.open(() => ({ json: { ok: true }, delay: held }));
    const ref = await rig.submit();
    await rig.target.received(0);
    await rig.redis.fill();
    free();
    const before = rig.lines.length;
    await sleep(1_500);
    expect(await rig.broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    // An idle worker spins on errors unless it is paused.
    expect(rig.lines.length - before).toBeLessThan(50);
    await rig.redis.command('CONFIG', 'SET', 'maxmemory', '256mb');
    expect(bodyOf(await rig.outcome(ref))).toBe('{"ok":true}');
    const next = await until('room', () => rig.submit().catch(() => undefined));
    expect(bodyOf(await rig.outcome(next))).toBe('{"ok":true}');
  });

  it('is down when a worker is told to stop: it stops all the same (P21)', async () => {
    await using rig = await AsyncRig.open(counting());
    await rig.redis.kill();
    const stoppedAt = performance.now();
    expect(await rig.workers[0]?.stop()).toBe(0);
    expect(performance.now() - stoppedAt).toBeLessThan(8_000);
  });
});

describe('a deploy (4.13, failure table 5)', () => {
  it('lets short calls end and hands long ones over in milliseconds', async () => {
    await using rig = await AsyncRig.open(
      [{ json: { run: 1 }, delay: 300 }, { beforeHeaders: 'hang' }, { json: { run: 3 } }],
      1,
      { drain_timeout: '1s' },
    );
    const short = await rig.submit();
    await rig.target.received(0);
    const long = await rig.submit();
    await rig.target.received(1);
    const other = await rig.addWorker();
    expect(other.pid).toBeDefined();
    expect(await rig.workers[0]?.stop()).toBe(0);
    const stoppedAt = performance.now();
    expect(bodyOf(await rig.outcome(short))).toBe('{"run":1}');
    expect(bodyOf(await rig.outcome(long))).toBe('{"run":3}');
    expect(performance.now() - stoppedAt).toBeLessThan(1_000);
    expect(rig.target.calls).toHaveLength(3);
  });
});

describe('several workers', () => {
  it('P23, P24: a cancellation reaches the process that runs the request', async () => {
    await using rig = await AsyncRig.open({ beforeHeaders: 'hang' }, 2);
    const refs = await Promise.all([rig.submit(), rig.submit()]);
    const calls = [await rig.target.received(0), await rig.target.received(1)];
    for (const ref of refs) await rig.broker.cancel(ref, 'delete');
    await Promise.all(calls.map(({ ended }) => ended));
    expect(calls.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(await rig.broker.fetch(refs[0] ?? { tenant: '', id: '' })).toEqual({ kind: 'unknown' });
  });

  it('a lane that left the configuration is served until it is empty', async () => {
    await using rig = await AsyncRig.open(counting(), 0);
    const ref = await rig.submit();
    await rig.addWorker({ lanes: [{ name: 'lane-b' }] });
    expect(bodyOf(await rig.outcome(ref))).toBe('{"run":1}');
  });
});
