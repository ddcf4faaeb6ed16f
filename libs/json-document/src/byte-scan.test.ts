import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isBase64, TextScanner } from './byte-scan.ts';
import { Choices, decisions } from './testing.ts';

const blockBytes = 65_536;
const borders = [0, 1, 15, 16, 17, 31, 32, 33, blockBytes, 2 * blockBytes, 3 * blockBytes];

/** A length close to a border of vectors or blocks. */
const length = (random: Choices): number =>
  Math.max(0, (borders[random.below(borders.length)] ?? 0) + random.below(5) - 2);

const endsPlain = (byte: number): boolean => byte < 0x20 || byte === 0x22 || byte === 0x5c;

describe('TextScanner', () => {
  it.each(Array.from({ length: 256 }, (_, byte) => byte))('classifies byte %i', (byte) => {
    const bytes = new Uint8Array(20).fill(0x61);
    bytes[17] = byte;
    expect(new TextScanner(bytes).find(0)).toBe(endsPlain(byte) ? 17 : 20);
  });

  it('finds what a plain loop finds, from every start', () => {
    fc.assert(
      fc.property(decisions(30), (list) => {
        const random = new Choices(list);
        const bytes = new Uint8Array(length(random)).fill(0x61);
        for (let count = random.below(6); count > 0; count--) {
          bytes[length(random)] = random.of([0x22, 0x5c, 0, 0x1f, 0x20, 0x7f, 0xff]);
        }
        const scanner = new TextScanner(bytes);
        for (let from = 0; from < bytes.length; from += 1 + random.below(blockBytes)) {
          const expected = bytes.subarray(from).findIndex(endsPlain);
          const found = scanner.find(from);
          expect(found).toBe(expected < 0 ? bytes.length : from + expected);
          from = found;
        }
      }),
      { numRuns: 500 },
    );
  });

  it('does not see what an earlier, longer text has left behind', () => {
    expect(new TextScanner(Buffer.alloc(100, '"')).find(0)).toBe(0);
    expect(new TextScanner(Buffer.alloc(50, 'a')).find(0)).toBe(50);
    expect(new TextScanner(Buffer.alloc(0)).find(0)).toBe(0);
  });
});

describe('isBase64', () => {
  const pattern = /^[A-Za-z0-9+/]*$/;

  it.each(Array.from({ length: 256 }, (_, byte) => byte))('classifies byte %i', (byte) => {
    const bytes = new Uint8Array(20).fill(0x41);
    bytes[17] = byte;
    expect(isBase64(bytes)).toBe(pattern.test(String.fromCharCode(byte)));
  });

  it('says of every range what a regular expression says', () => {
    fc.assert(
      fc.property(decisions(12), (list) => {
        const random = new Choices(list);
        const bytes = Buffer.alloc(length(random), 'QUJD+/09az');
        if (random.chance(4)) bytes[length(random)] = random.of([0x3d, 0x2d, 0x5f, 0x20, 0x80, 0]);
        const start = Math.min(length(random), bytes.length);
        const end = Math.max(start, bytes.length - random.below(20));
        expect(isBase64(bytes, start, end)).toBe(
          pattern.test(bytes.toString('latin1', start, end)),
        );
        expect(isBase64(bytes)).toBe(pattern.test(bytes.toString('latin1')));
      }),
      { numRuns: 500 },
    );
  });

  it('takes an empty text for base64 and does not look outside its range', () => {
    expect(isBase64(Buffer.alloc(0))).toBe(true);
    expect(isBase64(Buffer.from('=QUJD='), 1, 5)).toBe(true);
    expect(isBase64(Buffer.from('=QUJD='), 1)).toBe(false);
  });
});
