import { describe, expect, it } from '@jest/globals';
import { runLimited } from './run-limited.ts';

const never = new AbortController().signal;

describe('runLimited', () => {
  it('gives the results in order, whatever the order of their ends', async () => {
    const gates = [0, 1, 2].map(() => Promise.withResolvers<void>());
    const all = runLimited([0, 1, 2], 3, never, async (item) => {
      await gates[item]?.promise;
      return item * 10;
    });
    for (const gate of gates.toReversed()) {
      gate.resolve();
      await gate.promise;
    }
    expect(await all).toEqual([0, 10, 20]);
  });

  it.each([1, 2, 5, 99])('runs at most %i at a time', async (limit) => {
    let [running, most] = [0, 0];
    await runLimited(Array.from({ length: 20 }), limit, never, async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    });
    expect(most).toBe(Math.min(limit, 20));
  });

  it('does nothing for no items', async () => {
    expect(await runLimited([], 3, never, () => Promise.reject(new Error('called')))).toEqual([]);
  });

  it('aborts the others at the first failure, waits for them and throws that failure', async () => {
    const ended: string[] = [];
    const failing = new Error('first');
    const all = runLimited(
      ['hangs', 'fails', 'waits in line'],
      2,
      never,
      async (item, _i, signal) => {
        if (item === 'fails') throw failing;
        await new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            ended.push(item);
            reject(new Error('later'));
          });
        });
      },
    );
    await expect(all).rejects.toBe(failing);
    expect(ended).toEqual(['hangs']);
  });

  it('hands the abort of the request on', async () => {
    const request = new AbortController();
    const reason = new Error('gone');
    const all = runLimited(
      [1, 2],
      2,
      request.signal,
      (_item, _index, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error));
        }),
    );
    request.abort(reason);
    await expect(all).rejects.toBe(reason);
  });
});
