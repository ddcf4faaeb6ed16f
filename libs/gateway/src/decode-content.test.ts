import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { decodeContent } from './decode-content.ts';

const text = Buffer.from('{"token_ids":[1,2,3]}');

describe('decodeContent', () => {
  it.each([
    { name: 'gzip', pack: gzipSync },
    { name: 'x-gzip', pack: gzipSync },
    { name: ' GZip ', pack: gzipSync },
    { name: 'deflate', pack: deflateSync },
    { name: 'br', pack: brotliCompressSync },
    { name: 'zstd', pack: zstdCompressSync },
  ])('unpacks $name', async ({ name, pack }) => {
    expect(await decodeContent(pack(text), name, 1000)).toEqual(text);
  });

  it.each([undefined, '', 'identity', 'Identity'])('leaves coding %j alone', async (coding) => {
    expect(await decodeContent(text, coding, 1000)).toBe(text);
  });

  it.each(['snappy', 'gzip, br', 'toString', 'constructor'])(
    'refuses coding %j',
    async (coding) => {
      await expect(decodeContent(text, coding, 1000)).rejects.toMatchObject({
        fault: 'answer-undecodable',
      });
    },
  );

  it('refuses damaged and cut bytes', async () => {
    const fault = { fault: 'answer-undecodable' };
    await expect(decodeContent(text, 'gzip', 1000)).rejects.toMatchObject(fault);
    const cut = gzipSync(text).subarray(0, -9);
    await expect(decodeContent(cut, 'gzip', 1000)).rejects.toMatchObject(fault);
  });

  it('takes content of exactly the limit and refuses a bomb', async () => {
    const bomb = gzipSync(Buffer.alloc(1_000_000));
    expect(await decodeContent(bomb, 'gzip', 1_000_000)).toHaveLength(1_000_000);
    await expect(decodeContent(bomb, 'gzip', 999_999)).rejects.toMatchObject({
      fault: 'answer-undecodable',
    });
  });
});
