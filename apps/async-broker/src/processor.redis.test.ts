import { describe, expect, it, jest } from '@jest/globals';
import { queueRedis, Rig, until } from './testing.ts';

// Most of the time is pauses of retries: the tests run side by side, each with a Redis of its own.
jest.setTimeout(40_000);

const response = (status: number, text: string) => ({
  kind: 'response',
  status,
  body: Buffer.from(text),
});
const text = (status: number, body: string) => ({
  status,
  text: body,
  headers: { 'content-type': 'application/json' },
});

describe('a request that runs (4.8)', () => {
  it.concurrent(
    'reaches the target as the client sent it and is stored as the target answered',
    async () => {
      await using rig = await Rig.open({
        config: { objectives: { async: { reserved: 'async-high', overflow: 'async-low' } } },
        script: { bytes: Buffer.from('{"id": 1.0}'), headers: { 'content-type': 'a/b; x=y' } },
      });
      const body = Buffer.from('{ "model":"m",\t"prompt": "\\u00e9", "seed": 9007199254740993 }');
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      const forwardedHeaders = ['x-llm-d-slo-ttft-ms', '800', 'x-llm-d-async-mode', 'enqueue'];
      const ref = await rig.submit({ id: 'the-id', body, traceparent, forwardedHeaders });
      expect(await rig.outcome(ref)).toEqual({
        ...response(200, '{"id": 1.0}'),
        contentType: 'a/b; x=y',
      });
      const [call] = rig.upstream.calls;
      expect(call).toMatchObject({ method: 'POST', path: '/v1/completions', body });
      const { 'x-request-id': requestId, ...headers } = call?.headers ?? {};
      expect(requestId).not.toEqual(['the-id']);
      expect(headers).toEqual({
        host: [expect.any(String)],
        connection: ['keep-alive'],
        'content-type': ['application/json'],
        'content-length': [String(body.length)],
        traceparent: [traceparent],
        'x-llm-d-async-dispatch': ['1'],
        'x-llm-d-slo-ttft-ms': ['800'],
        'x-llm-d-inference-objective': ['async-high'],
        'x-llm-d-inference-fairness-id': ['team-a'],
      });
    },
  );

  it.concurrent('keeps a streamed answer as its bytes', async () => {
    const type = { 'content-type': 'text/event-stream' };
    await using rig = await Rig.open({
      script: { chunks: ['data: {}\n\n', { wait: 5 }, 'data: [DONE]\n\n'], headers: type },
    });
    expect(await rig.outcome(await rig.submit())).toEqual({
      ...response(200, 'data: {}\n\ndata: [DONE]\n\n'),
      contentType: 'text/event-stream',
    });
  });

  it.concurrent('F21 4xx of the model server are results and not repeated', async () => {
    await using rig = await Rig.open({ script: text(404, 'no such model') });
    expect(await rig.outcome(await rig.submit())).toMatchObject(response(404, 'no such model'));
    expect(rig.upstream.calls).toHaveLength(1);
  });

  it.concurrent('counts over its quota as overflow', async () => {
    let free = (): void => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    await using rig = await Rig.open({
      config: {
        tenants: { 'team-a': { concurrency: 1 } },
        objectives: { async: { reserved: 'high', overflow: 'low' } },
      },
      script: () => ({ json: {}, delay: held }),
    });
    const first = await rig.submit();
    await rig.upstream.arrived(0);
    const second = await rig.submit();
    await rig.upstream.arrived(1);
    free();
    await Promise.all([rig.outcome(first), rig.outcome(second)]);
    const objectives = rig.upstream.calls.map(
      ({ headers }) => headers['x-llm-d-inference-objective'],
    );
    expect(objectives).toEqual([['high'], ['low']]);
  });
});

describe('an attempt that fails', () => {
  it.concurrent.each([
    { name: '429', script: { status: 429 } },
    { name: 'a reset before the answer', script: { beforeHeaders: 'reset' as const } },
    { name: 'an answer that breaks', script: { chunks: ['{', { end: 'reset' as const }] } },
  ])('$name is repeated after a pause of 2 to 4 s, then stored', async ({ script }) => {
    await using rig = await Rig.open({ script: [script, { json: { second: true } }] });
    const startedAt = performance.now();
    const ref = await rig.submit();
    expect(await rig.outcome(ref)).toMatchObject({ kind: 'response', status: 200 });
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThan(1_900);
    expect(tookMs).toBeLessThan(6_000);
    expect(rig.upstream.calls).toHaveLength(2);
    expect(rig.upstream.calls[1]?.body).toEqual(rig.upstream.calls[0]?.body);
    const labels = '{queue_id="lane-a",queue_name="lane-a",pool_name="default"}';
    expect(await rig.metric(`llm_d_async_async_request_total${labels}`)).toBe(1);
    expect(await rig.metric(`llm_d_async_async_request_retries_total${labels}`)).toBe(1);
  });

  it.concurrent(
    'gateway refused until the deadline: the last status is the result (F19)',
    async () => {
      await using rig = await Rig.open({ script: text(503, 'busy') });
      const outcome = await rig.outcome(await rig.submit({ timeoutMs: 3_000 }));
      expect(outcome).toMatchObject(response(503, 'busy'));
    },
  );

  it.concurrent(
    'a repetition that the deadline cuts off: the status before it is the result',
    async () => {
      await using rig = await Rig.open({ script: [text(503, 'busy'), { beforeHeaders: 'hang' }] });
      const outcome = await rig.outcome(await rig.submit({ timeoutMs: 4_000 }));
      expect(outcome).toMatchObject(response(503, 'busy'));
    },
  );

  it.concurrent(
    'gateway connection refused: repeated until the deadline, then 504 (F20)',
    async () => {
      await using rig = await Rig.open();
      await rig.upstream.close();
      expect(await rig.outcome(await rig.submit({ timeoutMs: 2_500 }))).toMatchObject({
        kind: 'error',
        code: 'DEADLINE_EXCEEDED',
      });
    },
  );

  it.concurrent('gateway connection refused under the rules of upstream: 502 at once', async () => {
    await using rig = await Rig.open({ config: { dispatch: { retry_connect_errors: false } } });
    await rig.upstream.close();
    expect(await rig.outcome(await rig.submit())).toMatchObject({ code: 'INFERENCE_ERROR' });
  });

  it.concurrent('model server hangs: the attempt timeout ends it with 504 (F22, P31)', async () => {
    await using rig = await Rig.open({
      config: { dispatch: { attempt_timeout: '200ms', slots: 1 } },
      script: [{ beforeHeaders: 'hang' }, { json: {} }],
    });
    expect(await rig.outcome(await rig.submit())).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(await rig.outcome(await rig.submit())).toMatchObject({ status: 200 });
  });

  it.concurrent(
    'model server hangs beyond the deadline of the request: 504 at the deadline',
    async () => {
      await using rig = await Rig.open({ script: { beforeHeaders: 'hang' } });
      const ref = await rig.submit({ timeoutMs: 1_000 });
      expect(await rig.outcome(ref)).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
      const [call] = rig.upstream.calls;
      await call?.ended;
      expect(call?.aborted).toBe(true);
    },
  );
});

describe('a cancellation (4.12)', () => {
  it.concurrent('before the dispatch: nothing is sent', async () => {
    await using rig = await Rig.open({ isStarted: false });
    const first = await rig.submit({ body: Buffer.from('{"n":1}') });
    const second = await rig.submit({ body: Buffer.from('{"n":2}') });
    expect(await rig.broker.cancel(first)).toBe('queued');
    expect(await rig.broker.fetch(first)).toEqual({ kind: 'unknown' });
    await rig.start();
    await rig.outcome(second);
    expect(rig.upstream.calls.map(({ body }) => body.toString())).toEqual(['{"n":2}']);
  });

  it.concurrent(
    'DELETE during the dispatch: the call is aborted within a second, the outcome dropped, and its ticket ends by itself (P25)',
    async () => {
      await using rig = await Rig.open({ script: { beforeHeaders: 'hang' } });
      const ref = await rig.submit();
      const call = await rig.upstream.received(0);
      expect(await rig.broker.cancel(ref)).toBe('active');
      const deletedAt = performance.now();
      await call.ended;
      expect(performance.now() - deletedAt).toBeLessThan(1_000);
      expect(call.aborted).toBe(true);
      expect(await rig.broker.fetch(ref)).toEqual({ kind: 'unknown' });
      const counter = 'llm_d_async_broker_cancellations_total{phase="active",reason="delete"}';
      await until(async () => (await rig.metric(counter)) === 1);
      await until(async () => (await rig.metric('llm_d_async_broker_orphan_results_total')) === 1);
    },
  );

  it.concurrent(
    'disconnect during the dispatch: the call is aborted and the outcome is CANCELLED',
    async () => {
      await using rig = await Rig.open({ script: { beforeHeaders: 'hang' } });
      const ref = await rig.submit({ mode: 'wait' });
      const client = new AbortController();
      const { signal } = client;
      const held = rig.broker.wait(ref, { timeoutMs: 60_000, signal, isCounted: true });
      const call = await rig.upstream.received(0);
      client.abort();
      expect(await held).toEqual({ kind: 'left' });
      await call.ended;
      expect(call.aborted).toBe(true);
      expect(await rig.outcome(ref)).toMatchObject({ kind: 'error', code: 'CANCELLED' });
    },
  );

  it.concurrent('after the dispatch: the result is deleted and nothing runs again', async () => {
    await using rig = await Rig.open();
    const ref = await rig.submit();
    await rig.outcome(ref);
    expect(await rig.broker.cancel(ref)).toBe('deleted');
    expect(await rig.broker.fetch(ref)).toEqual({ kind: 'unknown' });
    expect(rig.upstream.calls).toHaveLength(1);
  });

  it.concurrent('whose message was lost is noticed within two seconds', async () => {
    await using rig = await Rig.open({ script: { beforeHeaders: 'hang' } });
    await rig.submit({ id: 'x' });
    const call = await rig.upstream.received(0);
    await rig.redis.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await rig.broker.cancel({ tenant: 'team-a', id: 'x' });
    const at = performance.now();
    await call.ended;
    expect(performance.now() - at).toBeLessThan(2_500);
  });
});

describe('the gates', () => {
  it.concurrent('closed by the operator nothing is dispatched, opened again all is', async () => {
    await using rig = await Rig.open();
    await rig.redis.command('SET', 'ab:gate:lane-a', '0');
    await until(
      async () => (await rig.metric('llm_d_async_broker_lane_paused{lane="lane-a"}')) === 1,
    );
    const ref = await rig.submit();
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(rig.upstream.calls).toHaveLength(0);
    await rig.redis.command('DEL', 'ab:gate:lane-a');
    expect(await rig.outcome(ref)).toMatchObject({ status: 200 });
  });

  it.concurrent('learn the capacity of the target from its refusals', async () => {
    let [running, most] = [0, 0];
    await using rig = await Rig.open({
      config: { gates: { aimd: {} } },
      script: () => {
        running += 1;
        most = Math.max(most, running);
        setTimeout(() => (running -= 1), 20);
        return running > 4 ? { status: 429 } : { json: {}, delay: 20 };
      },
    });
    const refs = await Promise.all(Array.from({ length: 60 }, () => rig.submit()));
    const outcomes = await Promise.all(refs.map((ref) => rig.outcome(ref)));
    expect(outcomes.every((outcome) => outcome?.kind === 'response')).toBe(true);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThan(30);
  });

  it.concurrent(
    'drop watched overflow while the target is saturated, as GATE_DROPPED',
    async () => {
      let free = (): void => {};
      const held = new Promise<void>((resolve) => (free = resolve));
      await using rig = await Rig.open({
        config: {
          gates: { aimd: {}, saturated: 'by-tier' },
          tenants: { 'team-a': { concurrency: 1 }, 'team-b': { concurrency: 1 } },
        },
        script: () => ({ json: {}, delay: held }),
      });
      await rig.submit();
      await rig.upstream.arrived(0);
      await rig.submit({ tier: 'interactive' });
      await rig.upstream.arrived(1);
      const dropped = await rig.submit({ tier: 'interactive' });
      expect(await rig.outcome(dropped)).toMatchObject({ code: 'GATE_DROPPED' });
      free();
    },
  );

  it.concurrent(
    'pause a lane as long as a saturated gateway asks, without a limiter of BullMQ (P26, P27)',
    async () => {
      const headers = {
        'retry-after': '2',
        'x-llm-d-request-dropped-reason': 'rejected-saturated',
      };
      await using rig = await Rig.open({ script: [{ status: 429, headers }, { json: {} }] });
      await rig.submit();
      await rig.upstream.received(0);
      const refusedAt = performance.now();
      await until(
        async () => (await rig.metric('llm_d_async_broker_lane_paused{lane="lane-a"}')) === 1,
      );
      await rig.outcome(await rig.submit());
      expect(performance.now() - refusedAt).toBeGreaterThan(1_900);
    },
  );
});

describe('readiness (4.14, F14)', () => {
  it.concurrent.each([
    {
      name: 'a wrong eviction policy',
      args: [...queueRedis.slice(0, 4), '--maxmemory-policy', 'allkeys-lru'],
      problem: 'redis.url: maxmemory-policy: expected noeviction',
      command: 'redis-cli CONFIG SET maxmemory-policy noeviction',
    },
    {
      name: 'no append-only file',
      args: queueRedis.slice(2),
      problem: 'redis.url: appendonly: expected yes',
      command: 'redis-cli CONFIG SET appendonly yes',
    },
  ])(
    'is refused with $name and names the key and the command, which mends it',
    async ({ args, problem, command }) => {
      await using rig = await Rig.open({ redisArgs: args, isStarted: false });
      await rig.start(false);
      await until(async () => (await (await rig.get('/readyz')).text()).includes(command));
      expect((await rig.get('/readyz')).status).toBe(503);
      expect(await (await rig.get('/readyz')).text()).toContain(problem);
      expect((await rig.get('/healthz')).status).toBe(200);
      await rig.redis.command(...command.split(' ').slice(1));
      await until(async () => (await rig.get('/readyz')).status === 200, 35_000);
      expect(await rig.outcome(await rig.submit())).toMatchObject({ status: 200 });
    },
    60_000,
  );

  it.concurrent('is lost while Redis is away and liveness is not', async () => {
    await using rig = await Rig.open();
    await rig.redis.kill();
    await until(async () => (await rig.get('/readyz')).status === 503);
    expect(await (await rig.get('/readyz')).text()).toContain('redis.url: not reachable');
    expect((await rig.get('/healthz')).status).toBe(200);
    await rig.redis.restart();
    await until(async () => (await rig.get('/readyz')).status === 200);
  });
});

describe('the board', () => {
  const basic = (text: string) => ({
    authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  });

  it.concurrent('shows lanes to who has the password, and only reads', async () => {
    await using rig = await Rig.open({ config: { board: { password: 'pass:word' } } });
    expect((await rig.get('/admin/queues')).status).toBe(401);
    expect((await rig.get('/admin/queues/api/queues')).status).toBe(401);
    expect((await rig.get('/admin/queues/api/queues', basic('admin:wrong'))).status).toBe(401);
    const page = await rig.get('/admin/queues', basic('admin:pass:word'));
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<html');
    const queues = await rig.get('/admin/queues/api/queues', basic('admin:pass:word'));
    expect(await queues.json()).toMatchObject({
      queues: [{ name: 'lane-a', readOnlyMode: true }],
    });
    const change = await fetch(`${rig.running?.url ?? ''}/admin/queues/api/queues/lane-a/pause`, {
      method: 'PUT',
      headers: basic('admin:pass:word'),
    });
    expect(change.status).toBe(403);
  });

  it.concurrent('P6: leaves the limit of the event stream alone', async () => {
    await using rig = await Rig.open({ config: { board: { password: 'p' } } });
    await rig.outcome(await rig.submit());
    await rig.get('/admin/queues/api/queues', basic('admin:p'));
    const limit = await rig.redis.command('HGET', '{ab:lane-a}:lane-a:meta', 'opts.maxLenEvents');
    expect(limit).toContain('1000');
    expect(limit).not.toContain('10000');
  });

  it.concurrent('is not there without a password', async () => {
    await using rig = await Rig.open();
    expect((await rig.get('/admin/queues', basic('admin:'))).status).toBe(404);
  });
});
