import { describe, expect, it } from '@jest/globals';
import { type z } from 'zod';
import {
  connectorName,
  count,
  flag,
  mediaMb,
  positiveInteger,
  staleKey,
  usesOpenAiFormat,
} from './params.ts';

describe('parameters of steps', () => {
  it.each<{ name: string; schema: z.ZodType; good: unknown[]; bad: unknown[] }>([
    {
      name: 'a positive integer',
      schema: positiveInteger,
      good: [1, 8192, 8192.0],
      bad: [0, -1, 1.5, 1e19, '1', true],
    },
    { name: 'a count', schema: count, good: [0, 5, 5.0], bad: [-1, 0.5, 1e19, '0', false] },
    { name: 'a number of MB', schema: mediaMb, good: [1, 383], bad: [0, -1, 384, 1e15, '10'] },
    { name: 'a flag', schema: flag, good: [true, false], bad: ['true', 1, 0] },
    {
      name: 'the format',
      schema: usesOpenAiFormat,
      good: [true, false, undefined],
      bad: ['yes', 1],
    },
    {
      name: 'a connector',
      schema: connectorName,
      good: ['kv-nixl', '', undefined],
      bad: [1, true, []],
    },
    { name: 'a stale key', schema: staleKey('gone'), good: [undefined], bad: [true, false, 'x'] },
  ])('$name', ({ schema, good, bad }) => {
    for (const value of good)
      expect([value, schema.safeParse(value).success]).toEqual([value, true]);
    for (const value of bad)
      expect([value, schema.safeParse(value).success]).toEqual([value, false]);
  });

  it('the format is that of OpenAI unless the configuration says otherwise', () => {
    expect(usesOpenAiFormat.parse(undefined)).toBe(true);
  });
});
