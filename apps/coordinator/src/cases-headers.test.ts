import { once } from 'node:events';
import { connect } from 'node:net';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer } from '@llm-d/testing';
import { pictureChat, prefilled, TestCoordinator } from './testing.ts';

// Situations that people reported in public: cases.md, by number.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

const streamed = { ...pictureChat, stream: true };

describe('C38: answers that come compressed', () => {
  const packedJson = (value: unknown): Answer => ({
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    bytes: gzipSync(JSON.stringify(value)),
  });
  const events2 = 'data: 1\n\ndata: [DONE]\n\n';
  const image = { mm_hashes: { image: ['h'] }, kwargs_data: { image: [null] } };
  const features = { ...image, mm_placeholders: { image: [{ offset: 1, length: 1 }] } };

  describe.each(['gzip, br, zstd', 'identity'])('accept-encoding: %s', (acceptEncoding) => {
    it.each([
      {
        name: 'events',
        body: streamed,
        decode: {
          headers: { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' },
          bytes: gzipSync(events2),
        },
        status: 200,
        content: events2,
      },
      {
        name: 'JSON',
        body: pictureChat,
        decode: packedJson({ a: 1 }),
        status: 200,
        content: '{"a":1}',
      },
      {
        name: 'an error',
        body: streamed,
        decode: { ...packedJson({ error: {} }), status: 400 },
        status: 400,
        content: '{"error":{}}',
      },
    ])('$name: the body is what its headers say', async ({ body, decode, status, content }) => {
      await coordinator.start();
      coordinator.play({
        render: packedJson({ token_ids: [1, 2, 3], features }),
        encode: packedJson({}),
        prefill: packedJson(prefilled),
        decode,
      });
      const headers = { 'accept-encoding': acceptEncoding };
      const answer = await coordinator.ask(body, { headers });
      expect(answer).toMatchObject({ status, headers: { 'content-encoding': 'gzip' } });
      expect(gunzipSync(answer.bytes).toString()).toBe(content);
      const length = answer.headers['content-length'];
      if (length !== undefined) expect(Number(length)).toBe(answer.bytes.length);
      for (const phase of ['render', 'encode', 'prefill'] as const) {
        expect(coordinator.legs(phase)[0]?.headers['accept-encoding']).toBeUndefined();
      }
      const [leg] = coordinator.legs('decode');
      expect(leg?.headers['accept-encoding']).toEqual([acceptEncoding]);
      expect(leg?.json()).toMatchObject({
        kv_transfer_params: { remote_block_ids: prefilled.kv_transfer_params.remote_block_ids },
      });
    });
  });
});

describe('C41: request ids', () => {
  it('that two requests share at a time mix nothing', async () => {
    await coordinator.start();
    const both = Promise.withResolvers<void>();
    coordinator.play({
      prefill: (call) => {
        const { user } = call.json() as { user: string };
        if (coordinator.legs('prefill').length === 2) both.resolve();
        const params = { ...prefilled.kv_transfer_params, remote_engine_id: user };
        return { delay: both.promise, json: { kv_transfer_params: params } };
      },
      decode: (call) => {
        const { user, kv_transfer_params: params } = call.json() as {
          user: string;
          kv_transfer_params: { remote_engine_id: string };
        };
        return { json: { user, engine: params.remote_engine_id } };
      },
    });
    const headers = { 'x-request-id': 'abc' };
    const answers = await Promise.all(
      ['u1', 'u2'].map((user) => coordinator.ask({ ...pictureChat, user }, { headers })),
    );
    expect(answers.map(({ text }) => JSON.parse(text) as unknown)).toEqual([
      { user: 'u1', engine: 'u1' },
      { user: 'u2', engine: 'u2' },
    ]);
    const calls = [...coordinator.renderService.calls, ...coordinator.gateway.calls];
    expect(calls.map((call) => call.headers['x-request-id'])).toEqual(calls.map(() => ['abc']));
    const decisions = calls.map((call) => call.headers['x-llm-d-revision-decision-id']?.join());
    expect(new Set(decisions).size).toBe(2);
    const again = await coordinator.ask({ ...pictureChat, user: 'u3' }, { headers });
    expect(again).toMatchObject({ status: 200, headers: { 'x-request-id': 'abc' } });
  });

  it('differ between the legs where engines need that', async () => {
    await coordinator.start({ pipeline: { wire: { leg_request_id: 'unique' } } });
    await coordinator.ask(pictureChat, { headers: { 'x-request-id': 'abc' } });
    const ids = coordinator.gateway.calls.map((call) => call.headers['x-request-id']?.[0]);
    expect(ids).toEqual(['abc-encode-0', 'abc-prefill', 'abc-decode']);
  });

  it.each([
    { name: 'too long', id: 'x'.repeat(5_000) },
    { name: 'a path', id: '../../etc/passwd' },
    { name: 'empty', id: '' },
    { name: 'a line of a log', id: '"},{"level":"error' },
  ])('that are hostile are replaced everywhere: $name', async ({ id }) => {
    await coordinator.start();
    const { headers } = await coordinator.ask(pictureChat, { headers: { 'x-request-id': id } });
    const own = String(headers['x-request-id']);
    expect(own).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    const calls = [...coordinator.renderService.calls, ...coordinator.gateway.calls];
    expect(calls).toHaveLength(4);
    for (const call of calls) expect(call.headers['x-request-id']).toEqual([own]);
    await coordinator.summary(own);
    if (id !== '') expect(JSON.stringify(coordinator.lines)).not.toContain(JSON.stringify(id));
  });

  it('with a line break never get past the parser', async () => {
    await coordinator.start();
    const socket = connect(Number(new URL(coordinator.url).port), '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    const head = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n';
    socket.write(`${head}x-request-id: a\rb\r\ncontent-length: 2\r\n\r\n{}`);
    await once(socket, 'close');
    expect(text).toMatch(/^HTTP\/1.1 400 /);
    expect(coordinator.gateway.calls).toEqual([]);
  });

  it('stand beside the trace of the client, which reaches every leg', async () => {
    await coordinator.start();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await coordinator.ask(pictureChat, { headers: { traceparent, 'x-request-id': 'abc' } });
    for (const { headers } of coordinator.gateway.calls) {
      expect(headers['traceparent']?.[0]).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-/);
      expect(headers['x-request-id']).toEqual(['abc']);
    }
  });
});
