import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { completion, errorOf, QueueRig } from './testing.ts';

let rig: QueueRig;
beforeAll(async () => {
  rig = await QueueRig.open();
});
afterAll(() => rig.close());

/** Whatever a test sends must not be queued. */
async function expectNothingQueued(work: () => Promise<unknown>): Promise<void> {
  const before = await rig.waiting();
  await work();
  expect(await rig.waiting()).toBe(before);
}

describe('a request without a mode', () => {
  it('C5 goes on as it came, identity headers included, and is not queued', async () => {
    await expectNothingQueued(async () => {
      const { status } = await rig.coordinator.ask(completion, {
        path: '/v1/completions',
        headers: { 'x-llm-d-inference-fairness-id': 'mine', 'x-llm-d-async-mode': '' },
      });
      expect(status).toBe(200);
    });
    expect(rig.coordinator.legs('decode').at(-1)?.headers).toMatchObject({
      'x-llm-d-inference-fairness-id': ['mine'],
    });
  });
});

describe('a request that cannot be queued', () => {
  it.each([
    { name: 'C6 an unknown mode', mode: 'sideways', message: /^unknown x-llm-d-async-mode value/ },
    { name: 'a body that is no JSON', body: '{', message: /^the request body/ },
    { name: 'a body that is no object', body: '[1]', message: /^the request body/ },
    { name: 'C8 no model', body: { prompt: 'hi' }, message: /^model is required/ },
    { name: 'C8 a model that is no text', body: { model: 7 }, message: /^model is required/ },
    { name: 'C9 a tenant with a colon', headers: { 'x-team': 'a:b' }, message: /colon/ },
    {
      name: 'modes of two generations that differ',
      headers: { 'x-ap-mode': 'wait' },
      message: /different values/,
    },
    {
      name: 'tenants of two generations that differ',
      headers: { 'x-team': 'a', 'x-llm-d-tenant': 'b' },
      message: /different values/,
    },
    {
      name: 'a bad idempotency key',
      headers: { 'idempotency-key': 'x'.repeat(256) },
      message: /^idempotency-key/,
    },
    {
      name: 'the mark of a dispatch, so that no loop can begin',
      headers: { 'x-llm-d-async-dispatch': '1' },
      message: /cannot be queued again/,
    },
    {
      name: 'a path of another API',
      path: '/inference/v1/generate',
      body: { model: 'm', token_ids: [1], sampling_params: {} },
      message: /^only chat completions and completions/,
    },
  ])('is 400 with $name', async ({ mode = 'enqueue', message, ...options }) => {
    await expectNothingQueued(async () => {
      const answer = await rig.post(mode, { id: 'refused', ...options });
      expect(answer.status).toBe(400);
      expect(answer.headers['x-request-id']).toBe('refused');
      expect(errorOf(answer)).toMatchObject({
        type: 'invalid_request_error',
        code: 'INVALID_REQUEST',
        message: expect.stringMatching(message),
      });
    });
  });

  it('C6 counts as a bad request', async () => {
    const before = await rig.errors('bad_request');
    await rig.post('sideways');
    expect(await rig.errors('bad_request')).toBe(before + 1);
  });

  it('is told what is wrong in the order of 1.4', async () => {
    const headers = { 'x-team': 'a:b', 'x-ap-mode': 'sideways' };
    const first = await rig.post('', { headers, body: { stream: true } });
    expect(errorOf(first)['message']).toMatch(/^unknown x-ap-mode value/);
    const second = await rig.post('enqueue', { headers: { 'x-team': 'a:b' }, body: {} });
    expect(errorOf(second)['message']).toMatch(/^model is required/);
  });
});

describe('enqueue', () => {
  it('C10 stores the request as it came, with its tenant, trace, deadline and allowed headers', async () => {
    const [body, id] = [' {"model":"m","seed":9007199254740993, "prompt":"ö"}\n', rig.newId()];
    const answer = await rig.post('enqueue', {
      id,
      body,
      headers: {
        'x-llm-d-tenant': 'team-a',
        'x-request-timeout-seconds': '120',
        'x-llm-d-slo-ttft-ms': '800',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'content-type': 'application/json; charset=utf-8',
        'x-other': 'no',
      },
    });
    expect(answer.status).toBe(202);
    expect(answer.text).toBe(`{"id":"${id}","status":"pending"}`);
    expect(answer.headers).toMatchObject({
      'x-request-id': id,
      'content-type': 'application/json',
      location: `/v1/requests/${id}`,
    });
    expect((await rig.get(id, { 'x-team': 'team-a' })).status).toBe(202);
    const dispatch = await rig.begin(id, 'team-a');
    expect(dispatch).toMatchObject({
      ...{ tenant: 'team-a', lane: 'request-sortedset', tier: 'async', model: 'm' },
      path: '/v1/completions',
      contentType: 'application/json; charset=utf-8',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      forwardedHeaders: ['x-llm-d-slo-ttft-ms', '800'],
      mode: 'enqueue',
    });
    expect(dispatch.remainingMs).toBeGreaterThan(115_000);
    expect(dispatch.remainingMs).toBeLessThanOrEqual(120_000);
    expect(String(await rig.broker.dispatch.body(dispatch))).toBe(body);
  });

  it('keeps a large body byte for byte', async () => {
    const text = randomBytes(300_000).toString('base64');
    const body = Buffer.from(`{"prompt":"${text}","model":"m"}`);
    const id = rig.newId();
    expect((await rig.post('enqueue', { id, body })).status).toBe(202);
    const stored = await rig.broker.dispatch.body(await rig.begin(id));
    const digest = (bytes: Buffer = Buffer.alloc(0)) =>
      createHash('sha256').update(bytes).digest('hex');
    expect(digest(stored)).toBe(digest(body));
  });

  it('stores what a packed body unpacks to', async () => {
    const [id, text] = [rig.newId(), '{"model":"m","prompt":"packed"}'];
    const headers = { 'content-encoding': 'gzip' };
    expect((await rig.post('enqueue', { id, body: gzipSync(text), headers })).status).toBe(202);
    expect(String(await rig.broker.dispatch.body(await rig.begin(id)))).toBe(text);
  });

  it('queues a batch of prompts as one request', async () => {
    const [id, body] = [rig.newId(), { model: 'm', prompt: ['a', 'b'] }];
    const before = await rig.waiting();
    await rig.post('enqueue', { id, body });
    expect(await rig.waiting()).toBe(before + 1);
    const stored = await rig.broker.dispatch.body(await rig.begin(id));
    expect(JSON.parse(String(stored))).toEqual(body);
  });

  it('takes a body of exactly the limit, and none that is longer', async () => {
    const limit = 1_048_576;
    const bodyOf = (size: number): string => {
      const [head, tail] = ['{"model":"m","prompt":"', '"}'];
      return head + 'x'.repeat(size - head.length - tail.length) + tail;
    };
    expect((await rig.post('enqueue', { body: bodyOf(limit) })).status).toBe(202);
    await expectNothingQueued(async () => {
      expect((await rig.post('enqueue', { body: bodyOf(limit + 1) })).status).toBe(413);
    });
  });

  it('C18 clamps a deadline to a day', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id, headers: { 'x-request-timeout-seconds': '1000000' } });
    const { remainingMs } = await rig.begin(id);
    expect(remainingMs).toBeGreaterThan(86_390_000);
    expect(remainingMs).toBeLessThanOrEqual(86_400_000);
  });

  it('mints an id where the client sent none', async () => {
    const { headers, text } = await rig.post('enqueue');
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(text).toContain(String(headers['x-request-id']));
    expect(headers).not.toHaveProperty('x-llm-d-request-id-replaced');
  });

  it('replaces an id that cannot be one, and says so (1.3)', async () => {
    const { status, headers } = await rig.post('enqueue', { id: 'job_42' });
    expect(status).toBe(202);
    expect(headers['x-llm-d-request-id-replaced']).toBe('1');
    expect((await rig.get(String(headers['x-request-id']))).status).toBe(202);
    const refused = await rig.post('enqueue', {
      ...{ id: 'job_43', headers: { 'idempotency-key': 'ö'.repeat(200) } },
    });
    expect(refused.headers['x-llm-d-request-id-replaced']).toBe('1');
  });

  it.each(['meta', 'active', 'wait', 'events', 'completed', '-5', '123', '0', 'a'.repeat(128)])(
    'takes %s as an id, and runs it',
    async (id) => {
      expect((await rig.post('enqueue', { id })).status).toBe(202);
      await rig.finish(id, {
        ...{ kind: 'response', status: 200, contentType: 'text/plain', body: Buffer.from(id) },
      });
      const { status, text, headers } = await rig.get(id);
      expect([status, text, headers['content-type']]).toEqual([200, id, 'text/plain']);
    },
  );

  it('takes a tenant with UTF-8', async () => {
    const tenant = Buffer.from('größe-東').toString('latin1');
    const [id, headers] = [rig.newId(), { 'x-llm-d-tenant': tenant }];
    // Node's client would write headers as UTF-8 together with a body of text.
    const body = Buffer.from(JSON.stringify(completion));
    expect((await rig.post('enqueue', { id, headers, body })).status).toBe(202);
    expect((await rig.begin(id, 'größe-東')).tenant).toBe('größe-東');
    expect((await rig.get(id, headers)).status).toBe(202);
  });

  it('takes a stream, whose events are stored as they come (design.md decision 6)', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id, body: { ...completion, stream: true } });
    const events = 'data: {"a":1}\n\ndata: [DONE]\n\n';
    await rig.finish(id, {
      ...{ kind: 'response', status: 200, contentType: 'text/event-stream' },
      body: Buffer.from(events),
    });
    const { headers, text } = await rig.get(id);
    expect(headers['content-type']).toBe('text/event-stream');
    expect(text).toBe(events);
  });

  it('counts its requests, with mode, method and status', async () => {
    const name = 'llm_d_async_broker_http_requests_total{mode="enqueue",method="POST",code="202"}';
    const before = await rig.sample(name);
    await rig.post('enqueue');
    expect(await rig.sample(name)).toBe(before + 1);
  });
});

describe('a request that is sent again (1.8)', () => {
  it('C38 is queued once', async () => {
    const [id, before] = [rig.newId(), await rig.waiting()];
    expect((await rig.post('enqueue', { id })).status).toBe(202);
    expect((await rig.post('enqueue', { id })).status).toBe(202);
    expect(await rig.waiting()).toBe(before + 1);
  });

  it('C39 after a DELETE runs, once', async () => {
    const [id, before] = [rig.newId(), await rig.waiting()];
    await rig.post('enqueue', { id });
    await rig.delete(id);
    expect((await rig.post('enqueue', { id })).status).toBe(202);
    expect(await rig.waiting()).toBe(before + 1);
    expect((await rig.begin(id)).starts).toBe(1);
  });

  it('C40 after it was cancelled runs, once', async () => {
    const id = await rig.stored({ kind: 'error', code: 'CANCELLED', message: 'left' });
    const before = await rig.waiting();
    expect((await rig.post('enqueue', { id })).status).toBe(202);
    expect(await rig.waiting()).toBe(before + 1);
    expect((await rig.get(id)).status).toBe(202);
  });

  it.each([
    { name: 'another body', other: { body: { model: 'm', prompt: 'other' } } },
    { name: 'another model', other: { body: { model: 'n', prompt: 'hi' } } },
    { name: 'another path', other: { path: '/v1/chat/completions' } },
  ])('with the same id and $name is 409, and nothing is queued', async ({ other }) => {
    const id = rig.newId();
    await rig.post('enqueue', { id });
    await expectNothingQueued(async () => {
      const answer = await rig.post('enqueue', { id, ...other });
      expect(answer.status).toBe(409);
      expect(errorOf(answer)).toMatchObject({ code: 'ID_CONFLICT', type: 'invalid_request_error' });
    });
  });

  it('by its idempotency key is the same request, whatever ids it came with', async () => {
    const headers = { 'idempotency-key': 'order 7' };
    const [first, before] = [await rig.post('enqueue', { headers }), await rig.waiting()];
    const second = await rig.post('enqueue', { headers, id: rig.newId() });
    expect(second.text).toBe(first.text);
    expect(second.headers['x-request-id']).toBe(first.headers['x-request-id']);
    expect(second.headers['x-llm-d-request-id-replaced']).toBe('1');
    expect(await rig.waiting()).toBe(before);
  });

  it('by its idempotency key with another body is 422', async () => {
    const headers = { 'idempotency-key': 'order 8' };
    await rig.post('enqueue', { headers });
    await expectNothingQueued(async () => {
      const answer = await rig.post('enqueue', { headers, body: { model: 'm', prompt: 'x' } });
      expect(answer.status).toBe(422);
      expect(errorOf(answer)['code']).toBe('IDEMPOTENCY_KEY_REUSED');
    });
  });

  it('by an idempotency key of another tenant is another request', async () => {
    const headers = { 'idempotency-key': 'order 9' };
    const mine = await rig.post('enqueue', { headers });
    const other = await rig.post('enqueue', { headers: { ...headers, 'x-team': 'b' } });
    expect(other.status).toBe(202);
    expect(other.headers['x-request-id']).not.toBe(mine.headers['x-request-id']);
  });
});
