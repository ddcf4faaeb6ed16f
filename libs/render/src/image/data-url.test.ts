import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { RenderError } from '../errors.ts';
import { readImageUrl } from './data-url.ts';

function status(url: string): number {
  try {
    readImageUrl(url);
    return 200;
  } catch (error) {
    if (error instanceof RenderError) return error.status;
    throw error;
  }
}

describe('readImageUrl', () => {
  it('reads the bytes whatever the media type says', () => {
    for (const head of ['data:image/png;', 'data:;', 'DATA:text/plain;charset=utf-8;']) {
      expect(readImageUrl(`${head}base64,aGVsbG8=`).toString()).toBe('hello');
    }
  });

  it.each([
    ['http://host/x.png', 400],
    ['file:///etc/hostname', 400],
    ['ftp://x/y', 400],
    ['abc.png', 400],
    ['data:image/png;base64', 400],
    ['data:image/png,abc', 501],
  ])('refuses %s with %i', (url, expected) => {
    expect(status(url)).toBe(expected);
  });

  it('takes exactly what is strict base64', () => {
    const digit = fc.constantFrom(...'AZaz09+/=-_ \n*\u00e9');
    const text = fc.array(digit, { maxLength: 12 }).map((digits) => digits.join(''));
    fc.assert(
      fc.property(text, (data) => {
        const isStrict = data.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(data);
        expect(status(`data:;base64,${data}`)).toBe(isStrict ? 200 : 400);
      }),
      { numRuns: 5000 },
    );
  });
});
