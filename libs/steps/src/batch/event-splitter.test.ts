import { describe, expect, it } from '@jest/globals';
import { dataLines, EventSplitter } from './event-splitter.ts';

const text =
  'data: {"a":1}\n\n: ping\n\nevent: x\r\ndata:2\r\n\r\ndata: 3\ndata: 4\n\ndata: [DONE]\n\n';
const events = [
  'data: {"a":1}\n\n',
  ': ping\n\n',
  'event: x\r\ndata:2\r\n\r\n',
  'data: 3\ndata: 4\n\n',
  'data: [DONE]\n\n',
];

describe('an event stream', () => {
  it.each([1, 2, 3, 5, 7, 1000])('is cut at its blank lines in chunks of %d bytes', (size) => {
    const splitter = new EventSplitter();
    const bytes = Buffer.from(text);
    const found: string[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      for (const event of splitter.push(bytes.subarray(at, at + size))) {
        found.push(Buffer.from(event).toString());
      }
    }
    expect(found).toEqual(events);
    expect(splitter.pendingBytes).toBe(0);
  });

  it('keeps what has not ended', () => {
    const splitter = new EventSplitter();
    expect(splitter.push(Buffer.from('data: 1\n'))).toEqual([]);
    expect(splitter.push(Buffer.from('data: 2'))).toEqual([]);
    expect(splitter.pendingBytes).toBe(15);
    expect(Buffer.from(splitter.rest()).toString()).toBe('data: 1\ndata: 2');
  });

  it.each([
    { event: 'data: {"a":1}\n\n', data: ['{"a":1}'] },
    { event: 'data:  x\r\n\r\n', data: [' x'] },
    { event: ': ping\n\n', data: [] },
    { event: 'id: 1\ndata: a\ndata:b\n\n', data: ['a', 'b'] },
    { event: 'data: end', data: ['end'] },
  ])('has data in $event', ({ event, data }) => {
    const bytes = Buffer.from(event);
    const lines = dataLines(bytes).map(({ start, end }) => bytes.toString('utf8', start, end));
    expect(lines).toEqual(data);
  });
});
