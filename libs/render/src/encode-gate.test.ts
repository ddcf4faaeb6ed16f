import { describe, expect, it } from '@jest/globals';

import { EncodeGate } from './encode-gate.ts';

const PLACES = 2;
const WAITING = 3;

const open = (): EncodeGate => new EncodeGate({ running: PLACES, waiting: WAITING });

describe('EncodeGate', () => {
  it('runs as many tasks as it has places, the others in their order', async () => {
    const gate = open();
    const started: number[] = [];
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const tasks = Array.from({ length: PLACES + 2 }, (_, index) =>
      gate.run(async () => {
        started.push(index);
        await promise;
      }),
    );
    expect(started).toHaveLength(PLACES);
    resolve(undefined);
    await Promise.all(tasks);
    expect(started).toEqual([0, 1, 2, 3]);
  });

  it('gives the place back when a task fails', async () => {
    const gate = open();
    for (let index = 0; index < PLACES + 1; index++) {
      await expect(gate.run(() => Promise.reject(new Error('x')))).rejects.toThrow('x');
    }
    await expect(gate.run(() => Promise.resolve(1))).resolves.toBe(1);
  });

  it('refuses with 503 when too many wait', async () => {
    const gate = open();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const tasks = Array.from({ length: PLACES + WAITING }, () => gate.run(() => promise));
    await expect(gate.run(() => promise)).rejects.toMatchObject({ status: 503 });
    resolve(undefined);
    await Promise.all(tasks);
  });

  it('drops a task whose caller leaves while it waits, and lets the next one go', async () => {
    const gate = open();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const running = Array.from({ length: PLACES }, () => gate.run(() => promise));
    const caller = new AbortController();
    let hasRun = false;
    const left = gate.run(() => {
      hasRun = true;
      return promise;
    }, caller.signal);
    const next = gate.run(() => Promise.resolve('next'));
    expect(gate.queued).toBe(2);
    caller.abort();
    await expect(left).rejects.toMatchObject({ name: 'AbortError' });
    expect(gate.queued).toBe(1);
    resolve(undefined);
    await Promise.all(running);
    await expect(next).resolves.toBe('next');
    expect(hasRun).toBe(false);
    await expect(gate.run(() => promise, caller.signal)).rejects.toMatchObject({
      name: 'AbortError',
    });
  });
});
