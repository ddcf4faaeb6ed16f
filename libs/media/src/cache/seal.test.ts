import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Seal } from './seal.ts';

const bytes = randomBytes(100_000);
const changed = Buffer.from(bytes);
changed[99_999] = (changed[99_999] ?? 0) ^ 1;

const fits = (seal: Seal, text: string, given: Uint8Array, label = 'label '): boolean =>
  seal.check(text, label)(given);

describe('[138] a seal', () => {
  const seal = new Seal('secret');
  const text = seal.of('label ', bytes);

  it('fits the bytes that it was made for, in every process with the secret', () => {
    expect(fits(new Seal('secret'), text, Buffer.from(bytes))).toBe(true);
  });

  it.each([
    { name: 'one changed bit', given: () => fits(seal, text, changed) },
    { name: 'fewer bytes', given: () => fits(seal, text, bytes.subarray(1)) },
    { name: 'another label', given: () => fits(seal, text, bytes, 'other ') },
    { name: 'another secret', given: () => fits(new Seal('other'), text, bytes) },
    { name: 'the seal of other bytes', given: () => fits(seal, seal.of('label ', changed), bytes) },
    { name: 'a text that is none', given: () => fits(seal, 'AAAA', bytes) },
    { name: 'nothing', given: () => fits(seal, '', bytes) },
  ])('does not fit $name', ({ given }) => {
    expect(given()).toBe(false);
  });

  it('is another one each time', () => {
    expect(seal.of('label ', bytes)).not.toBe(text);
  });
});
