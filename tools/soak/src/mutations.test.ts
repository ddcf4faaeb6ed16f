import { describe, expect, it } from '@jest/globals';
import { goodRequests } from './fuzz-bodies.ts';
import { mutateBody } from './mutate-body.ts';
import { rawRequest } from './mutate-headers.ts';
import { Random } from './random.ts';

const bodiesOf = (seed: number): string[] => {
  const random = new Random(seed);
  return Array.from({ length: 200 }, () => {
    const { path, body } = random.pick(goodRequests);
    const { head, body: sent } = rawRequest(path, mutateBody(body, random), random);
    return Buffer.concat([head, sent]).toString('latin1');
  });
};

describe('the mutations', () => {
  it('are the same for the same seed', () => {
    expect(bodiesOf(7)).toEqual(bodiesOf(7));
  });

  it('are others for another seed', () => {
    expect(new Set([...bodiesOf(7), ...bodiesOf(8)]).size).toBeGreaterThan(350);
  });

  it('leave the good bodies as they are', () => {
    const before = JSON.stringify(goodRequests);
    bodiesOf(9);
    expect(JSON.stringify(goodRequests)).toBe(before);
  });

  it('make bodies that are JSON and bodies that are not', () => {
    const random = new Random(3);
    const isJson = Array.from({ length: 300 }, () => {
      try {
        JSON.parse(mutateBody(random.pick(goodRequests).body, random).toString());
        return true;
      } catch {
        return false;
      }
    });
    expect(isJson.filter(Boolean).length).toBeGreaterThan(60);
    expect(isJson.filter((is) => !is).length).toBeGreaterThan(60);
  });
});
