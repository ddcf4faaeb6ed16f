import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { Base64Text } from './base64-text.ts';

describe('Base64Text', () => {
  it('gives the text of all parts, however they are cut', () => {
    const part = fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.integer({ min: 0, max: 120_000 }).map((length) => new Uint8Array(length).fill(length)),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const whole = Buffer.concat(parts);
        const text = new Base64Text(whole.length);
        for (const bytes of parts) text.append(bytes);
        expect(Buffer.from(text.end()).toString()).toBe(whole.toString('base64'));
      }),
      { numRuns: 30 },
    );
  });
});
