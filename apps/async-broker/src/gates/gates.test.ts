import { describe, expect, it } from '@jest/globals';
import { slotsWithin } from './budget.ts';
import { whenSaturated } from './saturation.ts';

describe('the operator budget (redis gate of 3.3)', () => {
  it.each([
    { slots: 64, budget: 1, expected: 64 },
    { slots: 64, budget: 0.5, expected: 32 },
    { slots: 64, budget: 0.001, expected: 1 },
    { slots: 64, budget: 0, expected: 0 },
    { slots: 0, budget: 0.5, expected: 0 },
  ])('leaves $expected of $slots slots at $budget', ({ slots, budget, expected }) => {
    expect(slotsWithin(slots, budget)).toBe(expected);
  });
});

describe('saturation (tier-priority-admission of 3.3)', () => {
  it.each([
    { rule: 'by-tier', classification: 'reserved', tier: 'interactive', expected: 'wait' },
    { rule: 'by-tier', classification: 'reserved', tier: 'batch', expected: 'wait' },
    { rule: 'by-tier', classification: 'overflow', tier: 'interactive', expected: 'drop' },
    { rule: 'by-tier', classification: 'overflow', tier: 'async', expected: 'refuse' },
    { rule: 'by-tier', classification: 'overflow', tier: 'batch', expected: 'refuse' },
    { rule: 'by-tier', classification: 'overflow', tier: 'unknown', expected: 'refuse' },
    { rule: 'wait', classification: 'overflow', tier: 'interactive', expected: 'wait' },
  ] as const)(
    '$rule, $classification $tier: $expected',
    ({ rule, classification, tier, expected }) => {
      expect(whenSaturated(rule, classification, tier)).toBe(expected);
    },
  );
});
