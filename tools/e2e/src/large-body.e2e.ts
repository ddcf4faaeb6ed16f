import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, until } from '@llm-d/soak';
import { ask, open } from './ask.ts';
import { memoryOf } from './memory-of.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const path = '/inference/v1/generate';
const chatPath = '/v1/chat/completions';
const megabyte = 1024 * 1024;
const bodyBytes = 40 * megabyte;

/** A body in which any rewriting shows: odd blanks, digits above 2^53, escapes, key order, and a long text of no meaning. */
function bodyOf(prompt: number): Buffer {
  const ids = Array.from({ length: 64 }, (_, i) => prompt * 100 + i).join(', ');
  const start =
    `{ "x_first":1.0,"model" : "sim/model","token_ids":[${ids}],\n` +
    '"sampling_params":{"max_tokens":4,"seed":9007199254740993,"x_rate":1e-7},' +
    '"metadata":{"id":4634343214213523454,"name":"\\u0041\\/é🌍"},"x_padding":"';
  const end = '", "x_last":-0}';
  const room = bodyBytes - Buffer.byteLength(start) - Buffer.byteLength(end);
  return Buffer.concat([Buffer.from(start), Buffer.alloc(room, 'padding '), Buffer.from(end)]);
}

const sha256 = (bytes: Buffer): string => hash('sha256', bytes, 'hex');

let stack: TestStack;
let conditionalUrl: string;
/** Of the coordinator before its first request. */
let idleBytes: number;

beforeAll(async () => {
  stack = await startTestStack({
    workers: onePodEach,
    kvConnector: 'kv-shared-storage',
    ecConnector: 'ec-shared-storage',
    // Bodies of this size are too long for a prompt to be looked for.
    gatewayFlags: ['--gate', 'off'],
  });
  idleBytes = memoryOf(stack.children.pid('coordinator'), 'VmRSS');
  conditionalUrl = await stack.startCoordinator('conditional', {
    steps: ['replace-media-urls', 'render', 'conditional-decode', 'encode', 'prefill', 'decode'],
  });
});

afterAll(() => stack.stop());

describe('a body of 40 MB', () => {
  it('reaches decode with the bytes of the client and the KV params behind them', async () => {
    const body = bodyOf(1);
    const answer = await ask(stack.publicUrl, { path, requestId: 'large-1', body });
    expect(answer.status).toBe(200);
    const [record] = await stack.records('large-1', 'decode');
    const params = '{"do_remote_decode":false,"do_remote_prefill":true}';
    const edited = Buffer.concat([
      body.subarray(0, -1),
      Buffer.from(`,"kv_transfer_params":${params}}`),
    ]);
    expect(record?.bodyBytes).toBe(edited.length);
    expect(record?.bodySha256).toBe(sha256(edited));
    expect(record?.kv).toMatchObject({ source: 'external', pod: 'prefill-0' });
  });

  it('reaches a decode worker that serves it at once with the bytes of the client', async () => {
    const body = bodyOf(2);
    const answer = await ask(conditionalUrl, { path, requestId: 'large-2', body });
    expect(answer.status).toBe(200);
    const records = await stack.records('large-2');
    expect(records.map(({ role, bodySha256 }) => ({ role, bodySha256 }))).toEqual([
      { role: 'decode', bodySha256: sha256(body) },
    ]);
  });

  it('costs the coordinator at most four times its size, and twelve of them do not add up', async () => {
    const pid = stack.children.pid('coordinator');
    // One such body so far.
    expect(memoryOf(pid, 'VmHWM')).toBeLessThan(idleBytes + 4 * bodyBytes);
    for (let prompt = 3; prompt <= 14; prompt++) {
      const { status } = await ask(stack.publicUrl, { path, body: bodyOf(prompt) });
      expect(status).toBe(200);
    }
    // Bodies of earlier requests lie there until they are collected.
    expect(memoryOf(pid, 'VmHWM')).toBeLessThan(idleBytes + 8 * bodyBytes);
  });
});

describe('a client that does not read its stream of 100 MB', () => {
  it('holds the worker back, costs the coordinator little, and gets everything later', async () => {
    const [tokens, tokenBytes] = [400, 256 * 1024];
    const script = 'x'.repeat(tokenBytes);
    await stack.configure('decode', { mode: 'script', script });
    const pid = stack.children.pid('coordinator');
    const bytesBefore = memoryOf(pid, 'VmRSS');
    const limits = { min_tokens: tokens, max_tokens: tokens };
    const slow = await open(stack.publicUrl, {
      path: chatPath,
      requestId: 'slow-1',
      body: chatOf('Tell me everything', { stream: true, ...limits }),
    });

    let [sent, looks] = [-1, 0];
    await until('a worker that waits', async () => {
      const [record] = await stack.records('slow-1', 'decode');
      const { completionTokens = 0 } = record?.outcome ?? {};
      looks = completionTokens === sent ? looks + 1 : 0;
      sent = completionTokens;
      return sent > 0 && looks === 20 ? true : undefined;
    });
    // What lies between them is in the buffers of three hops.
    expect(sent * tokenBytes).toBeLessThan(50 * megabyte);
    expect(memoryOf(pid, 'VmRSS') - bytesBefore).toBeLessThan(40 * megabyte);

    const other = await ask(stack.publicUrl, {
      path: chatPath,
      body: chatOf('And in short?', { max_tokens: 1 }),
    });
    expect(other.status).toBe(200);

    let [received, end] = [0, ''];
    for await (const piece of slow.body) {
      received += (piece as Buffer).length;
      end = (end + String(piece)).slice(-14);
    }
    expect(received).toBeGreaterThan(tokens * tokenBytes);
    expect(end).toBe('data: [DONE]\n\n');
  });
});
