import { beforeEach, describe, expect, it } from '@jest/globals';
import { Aimd, type AimdCall, type Feedback } from './aimd.ts';

const limits = { minWindow: 1, maxWindow: 256, increase: 1, decrease: 0.5 };
let now = 0;
let aimd: Aimd;

beforeEach(() => {
  now = 0;
  aimd = new Aimd(3, limits, () => now);
});

const enter = (rank = 0): AimdCall => {
  const call = aimd.enter(rank);
  if (!call) throw new Error('the band is full');
  return call;
};
const run = (count: number, feedback: Feedback = 'accepted', rank = 0): void => {
  for (let i = 0; i < count; i += 1) enter(rank).end(feedback);
};
const window = (rank = 0): number => aimd.state(rank).window;

describe('a window (aimd of 3.3)', () => {
  it('starts at one call and refuses the second until the first has ended', () => {
    const first = enter();
    expect(aimd.enter(0)).toBeUndefined();
    first.end('accepted');
    expect(aimd.enter(0)).toBeDefined();
  });

  it('grows by one per accepted call until the threshold, then by one per window', () => {
    run(7);
    expect(window()).toBe(8);
    enter().end('saturated');
    expect(aimd.state(0)).toEqual({ window: 4, threshold: 4, inFlight: 0 });
    now += 1;
    run(4);
    expect(window()).toBeCloseTo(4.94, 1);
  });

  it('is halved once per flight', () => {
    run(7);
    const flight = Array.from({ length: 8 }, () => enter());
    now += 1;
    for (const call of flight) call.end('saturated');
    expect(window()).toBe(4);
  });

  it('shrinks by a tenth when requests expire in the queue of the target', () => {
    run(9);
    enter().end('expired');
    expect(window()).toBe(9);
  });

  it('does not change by evictions and server errors', () => {
    run(4);
    enter().end('neutral');
    expect(window()).toBe(5);
  });

  it('never falls under its minimum nor grows over its maximum', () => {
    run(400);
    expect(window()).toBe(256);
    for (let i = 0; i < 10; i += 1) {
      now += 1;
      enter().end('saturated');
    }
    expect(window()).toBe(1);
  });

  it('is closed until Retry-After is over and starts again at the minimum', () => {
    run(5);
    enter().end('saturated', 2_000);
    expect(window()).toBe(1);
    now += 1_999;
    expect(aimd.enter(0)).toBeUndefined();
    now += 1;
    expect(aimd.enter(0)).toBeDefined();
    expect(aimd.state(0).threshold).toBe(3);
  });
});

describe('the bands among each other', () => {
  it('lets a rejection shrink the lower and freeze the higher for a second', () => {
    for (const rank of [0, 1, 2]) run(7, 'accepted', rank);
    enter(1).end('saturated');
    expect([window(0), window(1), window(2)]).toEqual([8, 4, 4]);
    run(3, 'accepted', 0);
    expect(window(0)).toBe(8);
    now += 1_000;
    run(3, 'accepted', 0);
    expect(window(0)).toBe(11);
  });
});
