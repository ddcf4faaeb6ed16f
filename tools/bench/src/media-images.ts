import { randomBytes } from 'node:crypto';

/** Bytes with the header of a JPEG of 1280 x 720 and its end; what stands between is of no picture. */
export function imageOfBytes(byteLength: number): Buffer {
  const head = Buffer.from(
    'ffd8ffe000104a46494600010100000100010000ffc0000b0802d00500010111',
    'hex',
  );
  const end = Buffer.from('ffd9', 'hex');
  const middle = randomBytes(Math.max(0, byteLength - head.length - end.length));
  return Buffer.concat([head, middle, end]);
}
