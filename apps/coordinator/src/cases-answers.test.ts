import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, type Piece } from '@llm-d/testing';
import { pictureChat, prefilled, TestCoordinator } from './testing.ts';

// Situations that people reported in public: cases.md, by number.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

const events = (...chunks: Piece[]): Answer => ({
  headers: { 'content-type': 'text/event-stream' },
  chunks,
});
const streamed = { ...pictureChat, stream: true };

const errorOf = (text: string): object => (JSON.parse(text) as { error: object }).error;

describe('C01: a character that is cut by the end of a chunk', () => {
  it('reaches the client byte for byte', async () => {
    await coordinator.start();
    const pieces = [
      Buffer.from('data: {"choices":[{"delta":{"content":"'),
      Buffer.from([0xe5, 0x8c]),
      Buffer.from([0x97, 0xf0, 0x9f]),
      Buffer.from([0x8c, 0x8d]),
      Buffer.from('"}}]}\n\ndata: [DONE]\n\n'),
    ];
    const chunks = pieces.flatMap((piece) => [piece, { wait: 20 }]);
    coordinator.play({ decode: events(...chunks) });
    const { bytes, text } = await coordinator.ask(streamed);
    expect(bytes.equals(Buffer.concat(pieces))).toBe(true);
    expect(text).toContain('北🌍');
  });
});

describe('C03: a decode worker that dies after the first tokens', () => {
  const five = Array.from({ length: 5 }, (_, i) => `data: {"i":${i}}\n\n`);

  const ends = [
    { name: 'a close', end: 'close', idle: '1m', code: 'UPSTREAM_UNREACHABLE', status: 502 },
    { name: 'silence', end: 'hang', idle: '300ms', code: 'UPSTREAM_TIMEOUT', status: 504 },
  ] as const;

  it.each(ends)('by $name: five chunks, one error event, no end', async (row) => {
    const { end, idle, code, status } = row;
    await coordinator.start({ gateway: { stream_idle_timeout: idle } });
    coordinator.play({ decode: events(...five, { wait: 30 }, { end }) });
    const answer = await coordinator.ask(streamed, { headers: { 'x-request-id': 'c03' } });
    const [first, last] = [five.join(''), answer.text.slice(five.join('').length)];
    expect(answer.text.startsWith(first)).toBe(true);
    expect(last).toMatch(/^data: \{"error":.*\}\n\n$/);
    expect(errorOf(last.slice('data: '.length))).toMatchObject({ code, status, step: 'decode' });
    expect(answer.text).not.toMatch(/\[DONE\]|finish_reason/);
    expect(coordinator.legs('decode')).toHaveLength(1);
    expect(await coordinator.summary('c03')).toMatchObject({ outcome: 'failed' });
    expect(coordinator.lines.find(({ level }) => level === 'error')).toMatchObject({
      request_id: 'c03',
    });
  });

  it('with a clean end is relayed as it is: other APIs end without [DONE]', async () => {
    await coordinator.start();
    coordinator.play({ decode: events(...five) });
    expect((await coordinator.ask(streamed)).text).toBe(five.join(''));
  });

  it.each(ends)('is never a short 200 where nothing is streamed: $name', async (row) => {
    const { end, idle, code, status } = row;
    await coordinator.start({ gateway: { stream_idle_timeout: idle } });
    const headers = { 'content-type': 'application/json', 'content-length': '1000' };
    coordinator.play({ decode: { headers, chunks: ['{"a":', { wait: 30 }, { end }] } });
    const answer = await coordinator.ask(pictureChat);
    expect(answer.status).toBe(status);
    expect(errorOf(answer.text)).toMatchObject({ code, step: 'decode' });
  });
});

describe('C07: usage at the end of a stream', () => {
  it.each([
    {
      name: 'on an event without choices',
      last: '{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":64}}}',
    },
    {
      name: 'on an event with one choice',
      last: '{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":9}}',
    },
  ])('is relayed as it is: $name', async ({ last }) => {
    await coordinator.start();
    const text = `data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: ${last}\n\ndata: [DONE]\n\n`;
    coordinator.play({ decode: events(text) });
    const body = { ...streamed, stream_options: { include_usage: true } };
    expect((await coordinator.ask(body)).text).toBe(text);
  });

  it('is not asked for where the client did not', async () => {
    await coordinator.start();
    coordinator.play({ decode: events('data: [DONE]\n\n') });
    await coordinator.ask(streamed);
    expect(coordinator.legs('decode')[0]?.json()).not.toHaveProperty('stream_options');
  });
});

describe('C14: numbers that are no JSON', () => {
  const odd = '{"choices":[{"logprobs":{"token_logprobs":[-Infinity,NaN]}}],"usage":{"n":1}}';

  it.each([200, 400])('of decode are relayed as they are: %i', async (status) => {
    await coordinator.start();
    const headers = { 'content-type': 'application/json' };
    coordinator.play({ decode: { status, headers, text: odd } });
    expect(await coordinator.ask(pictureChat)).toMatchObject({ status, text: odd });
  });

  it('of decode are relayed as they are: an event', async () => {
    await coordinator.start();
    coordinator.play({ decode: events(`data: ${odd}\n\ndata: [DONE]\n\n`) });
    const { text } = await coordinator.ask(streamed);
    expect(text).toBe(`data: ${odd}\n\ndata: [DONE]\n\n`);
  });

  it('of prefill are 502, and the log says why', async () => {
    await coordinator.start();
    const params = JSON.stringify(prefilled).slice(1);
    coordinator.play({ prefill: { text: `{"logprobs":[-Infinity],${params}` } });
    const { status, text } = await coordinator.ask(pictureChat);
    expect(status).toBe(502);
    expect(errorOf(text)).toMatchObject({ code: 'UPSTREAM_ANSWER_INVALID', step: 'prefill' });
    expect(coordinator.legs('decode')).toEqual([]);
    expect(coordinator.lines.find(({ level }) => level === 'error')).toMatchObject({
      msg: 'prefill: the answer is not valid JSON',
    });
  });
});
