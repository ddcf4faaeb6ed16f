import { describe, expect, it } from '@jest/globals';
import { encode, ExtData } from '@msgpack/msgpack';
import fc from 'fast-check';

import { encodeMsgpack, extensionHead, type Msgpack } from './msgpack.ts';

const { value } = fc.letrec<{ value: Msgpack }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false),
    fc.nat({ max: 2 ** 31 - 1 }),
    fc.constantFrom(127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1),
    fc.string({ maxLength: 10 }),
    fc.array(tie('value'), { maxLength: 15 }),
    fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }), tie('value'), {
      maxKeys: 15,
      noNullPrototype: true,
    }),
  ),
}));

describe('encodeMsgpack', () => {
  it('writes the shortest form of every value', () => {
    fc.assert(
      fc.property(value, (tree) => {
        expect(encodeMsgpack(tree)).toEqual(Buffer.from(encode(tree)));
      }),
    );
  });

  it.each([3, 24, 255, 256, 65_535, 65_536])(
    'writes the head of an extension of %i bytes',
    (length) => {
      const whole = Buffer.from(encode(new ExtData(3, new Uint8Array(length))));
      expect(extensionHead(3, length)).toEqual(whole.subarray(0, whole.length - length));
    },
  );

  it('refuses what it has no short form for', () => {
    expect(() => encodeMsgpack('x'.repeat(32))).toThrow(RangeError);
    expect(() => encodeMsgpack(Array.from({ length: 16 }, () => 0))).toThrow(RangeError);
  });
});
