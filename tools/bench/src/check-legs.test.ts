import { describe, expect, it } from '@jest/globals';
import { makeCase } from './cascade-cases.ts';
import { checkOutcome, differences, type Outcome } from './check-legs.ts';

const timing = { name: 'a case', requests: 1, parallel: 1, target: 1 };
const test = makeCase({ promptBytes: 10, tokens: 5, images: [400, 800] }, timing);

const leg = (name: string, body: object) => ({ name, body: Buffer.from(JSON.stringify(body)) });

const legs = [
  leg('render', { model: 'm' }),
  leg('encode', { part: 1 }),
  leg('encode', { part: 2 }),
  leg('prefill', { max_tokens: 1 }),
  leg('decode', { a: 1, b: { c: 2, d: 3 } }),
];

const outcome: Outcome = { status: 200, answer: Buffer.concat(test.answers.decode), legs };

describe('checkOutcome', () => {
  it('passes the answer of the worker after every leg', () => {
    expect(() => checkOutcome('bare', test, outcome)).not.toThrow();
  });

  it.each<[name: string, wrong: Partial<Outcome>]>([
    ['another status', { status: 502 }],
    ['another answer', { answer: Buffer.from('{}') }],
    ['a missing leg', { legs: legs.slice(1) }],
    ['a leg that was sent twice', { legs: [...legs, ...legs.slice(-1)] }],
  ])('refuses %s', (_, wrong) => {
    expect(() => checkOutcome('bare', test, { ...outcome, ...wrong })).toThrow('bare, a case');
  });
});

describe('differences', () => {
  it('finds none in the order of legs and members', () => {
    const [render, first, second, prefill] = legs;
    const same = [render, second, first, prefill, leg('decode', { b: { d: 3, c: 2 }, a: 1 })];
    const other = { ...outcome, legs: same.filter((seen) => seen !== undefined) };
    expect(differences(outcome, other)).toEqual([]);
  });

  it('names what is different', () => {
    const changed = [...legs.slice(0, -1), leg('decode', { a: 2, b: { c: 2, d: 3 }, e: null })];
    expect(differences(outcome, { ...outcome, legs: changed })).toEqual(['decode.a', 'decode.e']);
  });
});
