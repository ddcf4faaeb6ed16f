import { afterEach, describe, expect, it } from '@jest/globals';
import { Background, type BackgroundLimits } from './background.ts';

const limits: BackgroundLimits = {
  maxRunning: 2,
  maxWaiting: 2,
  maxWaitingBytes: 10,
  timeoutMs: 10_000,
};

let background: Background;
afterEach(() => background.close());

/** Work that goes on until it is told to end or its signal is aborted. */
function work() {
  const state = { isStarted: false, signal: undefined as AbortSignal | undefined, end: () => {} };
  const run = (signal: AbortSignal): Promise<void> => {
    state.isStarted = true;
    state.signal = signal;
    return new Promise((resolve) => {
      state.end = resolve;
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve());
    });
  };
  return Object.assign(run, { state });
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('work in the background', () => {
  it('runs so many at a time, the others in order when there is room', async () => {
    background = new Background(limits);
    const all = [work(), work(), work(), work()];
    expect(all.map((piece) => background.run(1, piece))).toEqual([true, true, true, true]);
    const started = (): boolean[] => all.map(({ state }) => state.isStarted);
    expect(started()).toEqual([true, true, false, false]);
    all[1]?.state.end();
    await turn();
    expect(started()).toEqual([true, true, true, false]);
  });

  it.each([
    { name: 'too many wait', bytes: [1, 1, 1, 1, 1], taken: [true, true, true, true, false] },
    { name: 'they hold too much', bytes: [99, 1, 8, 3, 2], taken: [true, true, true, false, true] },
  ])('is refused when $name', ({ bytes, taken }) => {
    background = new Background(limits);
    expect(bytes.map((size) => background.run(size, work()))).toEqual(taken);
  });

  it('makes room again for bytes that no longer wait', async () => {
    background = new Background(limits);
    const [first, second] = [work(), work()];
    for (const piece of [first, second]) background.run(1, piece);
    expect(background.run(10, work())).toBe(true);
    expect(background.run(10, work())).toBe(false);
    first.state.end();
    await turn();
    expect(background.run(10, work())).toBe(true);
  });

  it('is aborted when its time is over', async () => {
    background = new Background({ ...limits, timeoutMs: 1 });
    const piece = work();
    background.run(1, piece);
    await background.idle();
    expect(piece.state.signal?.aborted).toBe(true);
  });

  it('is waited for, what waits included', async () => {
    background = new Background({ ...limits, maxRunning: 1 });
    await background.idle();
    const [first, second] = [work(), work()];
    background.run(1, first);
    background.run(1, second);
    let isIdle = false;
    const idle = background.idle().then(() => (isIdle = true));
    first.state.end();
    await turn();
    expect([second.state.isStarted, isIdle]).toEqual([true, false]);
    second.state.end();
    await idle;
  });

  it('ends when it is closed: what runs and what waits hears of it, nothing more is taken', async () => {
    background = new Background({ ...limits, maxRunning: 1 });
    const [first, second] = [work(), work()];
    background.run(1, first);
    background.run(1, second);
    await background.close();
    expect([first.state.signal?.aborted, second.state.signal?.aborted]).toEqual([true, true]);
    expect(background.run(1, work())).toBe(false);
  });
});
