import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { toBase64 } from './to-base64.ts';

describe('toBase64', () => {
  const slice = 48 * 1024;

  it.each([0, 1, 2, 3, slice - 1, slice, slice + 1, 2 * slice + 2, 200_000])(
    'encodes %i bytes as Node does',
    (length) => {
      const bytes = randomBytes(length);
      expect(toBase64(bytes).toString('latin1')).toBe(bytes.toString('base64'));
    },
  );
});
