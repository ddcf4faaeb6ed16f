import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { pictureChat, TestCoordinator } from './testing.ts';

let coordinator: TestCoordinator;
beforeEach(() => startWith('50ms'));
afterEach(() => coordinator.close());

async function startWith(interval: string) {
  coordinator = await TestCoordinator.open();
  await coordinator.start({ server: { stream_keepalive: interval } });
}

const streamed = { ...pictureChat, stream: true };
const headers = { 'x-request-id': 'kept-1' };
const slow = { delay: 130 };
const events = { headers: { 'content-type': 'text/event-stream' }, text: 'data: [DONE]\n\n' };

/** The comments before the rest of a stream, and that rest. */
function split(text: string): { comments: number; rest: string } {
  const [, comments = '', rest = ''] = /^((?:: keep-alive\n\n)*)([^]*)$/.exec(text) ?? [];
  return { comments: comments.split('\n\n').length - 1, rest };
}

describe('server.stream_keepalive', () => {
  it.each(['render', 'encode', 'prefill', 'decode'] as const)(
    'sends comments while %s runs, then the events of decode',
    async (phase) => {
      const json = {
        render: {
          token_ids: [1, 2, 3],
          features: {
            mm_hashes: { image: ['h'] },
            mm_placeholders: { image: [{ offset: 1, length: 1 }] },
            kwargs_data: { image: [null] },
          },
        },
        encode: {},
        prefill: {},
      };
      coordinator.play({
        decode: events,
        [phase]: { ...slow, ...(phase === 'decode' ? events : { json: json[phase] }) },
      });
      const answer = await coordinator.ask(streamed, { headers });
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({
        'content-type': expect.stringMatching(/^text\/event-stream/),
        'x-request-id': 'kept-1',
      });
      const { comments, rest } = split(answer.text);
      expect(comments).toBeGreaterThan(0);
      expect(rest).toBe('data: [DONE]\n\n');
      expect(await coordinator.summary('kept-1')).toMatchObject({ outcome: 'served', status: 200 });
    },
  );

  it.each([
    {
      name: 'prefill refuses',
      phases: { prefill: { ...slow, status: 422, text: 'SECRET' } },
      error: { code: 'UPSTREAM_ERROR', status: 422, step: 'prefill' },
    },
    {
      name: 'the gateway has no room',
      phases: {
        decode: {
          ...slow,
          status: 429,
          headers: { 'x-llm-d-request-dropped-reason': 'rejected-saturated' },
          text: 'SECRET',
        },
      },
      error: { code: 'GATEWAY_NO_CAPACITY', status: 429, step: 'decode' },
    },
    {
      name: 'decode refuses in its own words',
      phases: { decode: { ...slow, status: 400, json: { error: 'SECRET' } } },
      error: { code: 'UPSTREAM_ERROR', status: 400, step: 'decode' },
    },
    {
      name: 'decode answers no stream',
      phases: { decode: { ...slow, json: { choices: 'SECRET' } } },
      error: { code: 'UPSTREAM_ANSWER_INVALID', status: 502, step: 'decode' },
    },
    {
      name: 'decode breaks off',
      phases: {
        decode: { ...slow, headers: events.headers, chunks: [{ end: 'close' } as const] },
      },
      error: { code: 'UPSTREAM_UNREACHABLE', status: 502, step: 'decode' },
    },
    {
      name: 'decode never answers',
      phases: { decode: { ...slow, beforeHeaders: 'close' as const } },
      error: { code: 'UPSTREAM_UNREACHABLE', status: 502, step: 'decode' },
    },
  ])('tells in band that $name', async ({ phases, error }) => {
    coordinator.play(phases);
    const answer = await coordinator.ask(streamed, { headers });
    expect(answer.status).toBe(200);
    const { comments, rest } = split(answer.text);
    expect(comments).toBeGreaterThan(0);
    expect(rest).toMatch(/^data: \{"error":.*\}\n\n$/);
    expect(JSON.parse(rest.slice('data: '.length))).toMatchObject({
      error: { ...error, request_id: 'kept-1' },
    });
    expect(answer.text).not.toMatch(/SECRET|DONE/);
    expect(await coordinator.summary('kept-1')).toMatchObject({
      outcome: 'failed',
      status: 200,
      code: expect.any(String),
    });
  });

  it.each([
    // No machine stalls for as long as this interval, so the failure comes first.
    { name: 'a failure that comes in time', body: streamed, interval: '10m' },
    { name: 'a request without a stream', body: pictureChat, interval: '50ms' },
  ])('leaves its status to $name', async ({ body, interval }) => {
    await coordinator.close();
    await startWith(interval);
    coordinator.play({ prefill: { ...slow, status: 422 } });
    const { status, text } = await coordinator.ask(body, { headers });
    expect(status).toBe(422);
    expect(text).not.toContain(': keep-alive');
  });

  it('sends none between the tokens', async () => {
    const chunks = ['data: 1\n\n', { wait: 130 }, 'data: [DONE]\n\n'];
    coordinator.play({ decode: { headers: events.headers, chunks } });
    const { text } = await coordinator.ask(streamed, { headers });
    expect(split(text).rest).toBe('data: 1\n\ndata: [DONE]\n\n');
  });
});
