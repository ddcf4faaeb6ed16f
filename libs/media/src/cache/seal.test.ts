import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Seal } from './seal.ts';

const bytes = randomBytes(100_000);
const changed = Buffer.from(bytes);
changed[99_999] = (changed[99_999] ?? 0) ^ 1;

describe('[138] a seal', () => {
  const seal = new Seal('secret');
  const text = seal.of(bytes);

  it('fits the bytes that it was made for, in every process with the secret', () => {
    expect(new Seal('secret').fits(text, Buffer.from(bytes))).toBe(true);
  });

  it.each([
    { name: 'one changed bit', given: () => seal.fits(text, changed) },
    { name: 'fewer bytes', given: () => seal.fits(text, bytes.subarray(1)) },
    { name: 'another secret', given: () => new Seal('other').fits(text, bytes) },
    { name: 'the seal of other bytes', given: () => seal.fits(seal.of(changed), bytes) },
    { name: 'a text that is none', given: () => seal.fits('AAAA', bytes) },
    { name: 'nothing', given: () => seal.fits('', bytes) },
  ])('does not fit $name', ({ given }) => {
    expect(given()).toBe(false);
  });

  it('is another one each time', () => {
    expect(seal.of(bytes)).not.toBe(text);
  });
});
