import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import { isTruncated } from './truncation.ts';

const files = join(import.meta.dirname, '../testdata/images/files');

describe('isTruncated', () => {
  it.each([
    { file: 's-64x64.png', format: 'png' },
    { file: 's-640x480.jpg', format: 'jpeg' },
    { file: 'a-anim.gif', format: 'gif' },
    { file: 'm-lossy.webp', format: 'webp' },
  ])('tells a whole $file from a cut one', ({ file, format }) => {
    const bytes = readFileSync(join(files, file));
    expect(isTruncated(bytes, format)).toBe(false);
    expect(isTruncated(Buffer.concat([bytes, Buffer.from('tail')]), format)).toBe(false);
    // A quarter lies inside the first frame of the animation too.
    expect(isTruncated(bytes.subarray(0, Math.floor(bytes.length / 4)), format)).toBe(true);
    expect(isTruncated(bytes.subarray(0, 11), format)).toBe(true);
  });
});
