import { describe, expect, it } from '@jest/globals';
import { MediaFrames } from './media-frames.ts';
import { frame } from './testing.ts';

const items = [Buffer.from('abc'), Buffer.alloc(0), Buffer.alloc(300, 'x')];
const answer = Buffer.concat(items.map((bytes) => frame(bytes, 'image/png')));

describe('MediaFrames', () => {
  it.each([1, 2, 3, 5, 64, 1000])('reads the same items in pieces of %i bytes', (size) => {
    const frames = new MediaFrames(3, 303);
    for (let at = 0; at < answer.length; at += size) frames.add(answer.subarray(at, at + size));
    expect(frames.end()).toEqual(items.map((bytes) => ({ contentType: 'image/png', bytes })));
  });

  const header = (length: number, text: string): Buffer => {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(length);
    return Buffer.concat([head, Buffer.from(text)]);
  };
  it.each([
    { name: 'fewer items', bytes: answer.subarray(0, -1), error: 'fewer frames' },
    { name: 'nothing', bytes: Buffer.alloc(0), error: 'fewer frames' },
    { name: 'more items', bytes: Buffer.concat([answer, frame(items[0])]), error: 'more frames' },
    { name: 'more bytes', bytes: frame(Buffer.alloc(304)), error: 'more bytes' },
    { name: 'an empty header', bytes: header(0, ''), error: 'the length' },
    { name: 'a header without end', bytes: header(65_537, ''), error: 'the length' },
    { name: 'a header that is no JSON', bytes: header(2, '{x'), error: 'JSON' },
    { name: 'no type', bytes: header(17, '{"byte_length":1}'), error: 'content_type' },
    {
      name: 'a type that ends a text',
      bytes: frame(items[0], 'image/"png'),
      error: 'content_type',
    },
    { name: 'a negative length', bytes: frame(items[0], 'a/b', -1), error: 'byte_length' },
    { name: 'half a byte', bytes: frame(items[0], 'a/b', 0.5), error: 'byte_length' },
  ])('refuses $name', ({ bytes, error }) => {
    const frames = new MediaFrames(3, 303);
    expect(() => {
      frames.add(bytes);
      frames.end();
    }).toThrow(error);
  });
});
