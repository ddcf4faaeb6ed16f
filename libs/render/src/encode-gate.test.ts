import { availableParallelism } from 'node:os';

import { describe, expect, it } from '@jest/globals';

import { EncodeGate } from './encode-gate.ts';

const places = Math.max(1, availableParallelism() - 1);

describe('EncodeGate', () => {
  it('runs as many tasks as it has places, the others in their order', async () => {
    const gate = new EncodeGate();
    const started: number[] = [];
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const tasks = Array.from({ length: places + 2 }, (_, index) =>
      gate.run(async () => {
        started.push(index);
        await promise;
      }),
    );
    expect(started).toHaveLength(places);
    resolve(undefined);
    await Promise.all(tasks);
    expect(started).toEqual([...started].sort((a, b) => a - b));
    expect(started).toHaveLength(places + 2);
  });

  it('gives the place back when a task fails', async () => {
    const gate = new EncodeGate();
    for (let index = 0; index < places + 1; index++) {
      await expect(gate.run(() => Promise.reject(new Error('x')))).rejects.toThrow('x');
    }
    await expect(gate.run(() => Promise.resolve(1))).resolves.toBe(1);
  });

  it('refuses with 503 when too many wait', async () => {
    const gate = new EncodeGate();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const tasks = Array.from({ length: places + 256 }, () => gate.run(() => promise));
    await expect(gate.run(() => promise)).rejects.toMatchObject({ status: 503 });
    resolve(undefined);
    await Promise.all(tasks);
  });
});
