import { describe, expect, it } from '@jest/globals';
import { MemorySink, requestContext } from './testing.ts';

describe('MemorySink', () => {
  it('keeps an answer and how it ended', () => {
    const sink = new MemorySink();
    expect(sink.isStarted).toBe(false);
    sink.start(200, ['a', 'b']);
    expect(sink.write(Buffer.from('x'))).toBe(true);
    sink.end();
    expect(sink).toMatchObject({ isStarted: true, status: 200, text: 'x', ended: 'whole' });
    expect(() => sink.start(200, [])).toThrow('already');
  });

  it('plays a slow client that catches up', () => {
    const sink = new MemorySink();
    let drains = 0;
    sink.onDrain(() => drains++);
    sink.accepts = false;
    expect(sink.write(Buffer.from('x'))).toBe(false);
    sink.drain();
    expect(drains).toBe(1);
    expect(sink.write(Buffer.from('x'))).toBe(true);
    sink.abort();
    expect(sink.ended).toBe('cut');
  });
});

describe('requestContext', () => {
  it('gives each request its own revision decision id and the path of its API', () => {
    const [a, b] = [requestContext({ api: 'generate' }), requestContext()];
    expect(a.path).toBe('/inference/v1/generate');
    expect(a.revisionDecisionId).not.toBe(b.revisionDecisionId);
  });
});
