import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { AsyncRig } from './async-rig.ts';

// Most of the time is waiting for locks to run out: the tests run side by side, each with a Redis of its own.

const bodyOf = (outcome: unknown): string =>
  (outcome as { body?: Buffer }).body?.toString() ?? JSON.stringify(outcome);

describe('a worker that dies (failure table 5)', () => {
  it.concurrent(
    'F5 SIGKILL mid-call: the request runs on another worker and has one result (P14)',
    async () => {
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
    },
  );

  it.concurrent(
    'whose event loop stood still (P9, P10): one of two results is kept, both runs end (F8)',
    async () => {
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
    },
  );
});

describe('a deploy (4.13, F29)', () => {
  it.concurrent('lets short calls end and hands long ones over in milliseconds', async () => {
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
  it.concurrent('P23, P24: a cancellation reaches the process that runs the request', async () => {
    await using rig = await AsyncRig.open({ beforeHeaders: 'hang' }, 2);
    const refs = await Promise.all([rig.submit(), rig.submit()]);
    const calls = [await rig.target.received(0), await rig.target.received(1)];
    for (const ref of refs) await rig.broker.cancel(ref);
    await Promise.all(calls.map(({ ended }) => ended));
    expect(calls.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(await rig.broker.fetch(refs[0] ?? { tenant: '', id: '' })).toEqual({ kind: 'unknown' });
  });
});
