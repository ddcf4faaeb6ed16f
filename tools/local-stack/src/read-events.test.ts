import { describe, expect, it } from '@jest/globals';
import { readEvents } from './read-events.ts';

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < bytes.length; i += size) {
    await Promise.resolve();
    yield bytes.subarray(i, i + size);
  }
}

describe('readEvents', () => {
  const text = 'data: {"content":"世界 🌍"}\n\n: comment\n\ndata: [DONE]\n\ndata: cut';

  it.each([1, 2, 3, 7, 1000])('reads the same events in pieces of %i bytes', async (size) => {
    const events: string[] = [];
    for await (const event of readEvents(pieces(Buffer.from(text), size))) events.push(event);
    expect(events).toEqual(['{"content":"世界 🌍"}', '[DONE]']);
  });
});
