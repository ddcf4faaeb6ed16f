import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger, startTracing, type Tracing } from '@llm-d/telemetry';
import {
  type Answer,
  type CollectedSpan,
  type RecordedCall,
  scriptedServer,
  type ScriptedServer,
  traceCollector,
  type TraceCollector,
} from '@llm-d/testing';
import { type Coordinator, createApp } from './app.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';
const sampled = `00-${traceId}-${parentId}-01`;
const notSampled = `00-${traceId}-${parentId}-00`;
const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const prefilled = {
  kv_transfer_params: {
    remote_block_ids: [[4, 5]],
    remote_engine_id: 'e',
    remote_request_id: 'r',
    remote_host: '10.0.0.1',
    remote_port: 5600,
  },
};
const served = { 'x-gateway-destination-endpoint-served': '10.0.0.7:8000' };

let directory: string;
let lines: Record<string, unknown>[];
let collector: TraceCollector;
let gateway: ScriptedServer;
let render: ScriptedServer;
let tracing: Tracing | undefined;
let coordinator: Coordinator | undefined;
let running: RunningService | undefined;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
  lines = [];
  collector = await traceCollector();
  render = await scriptedServer({ json: { token_ids: [1, 2, 3] } });
  gateway = await scriptedServer();
});

afterEach(async () => {
  await running?.stop();
  await coordinator?.close();
  await tracing?.close(5_000);
  await Promise.all([render.close(), gateway.close(), collector.close()]);
  rmSync(directory, { recursive: true });
});

/** Starts a coordinator whose gateway plays one answer for each phase. */
async function start(
  options: {
    prefill?: Answer;
    decode?: Answer;
    steps?: readonly string[];
    environment?: Record<string, string>;
    isTraced?: boolean;
  } = {},
): Promise<void> {
  const { prefill = { json: prefilled, headers: served }, decode = { text: '{"n": 1.0}' } } =
    options;
  const { steps = ['render', 'prefill', 'decode'], isTraced = true } = options;
  gateway.play((call) => (call.headers['epp-profile']?.[0] === 'prefill' ? prefill : decode));
  const file = join(directory, 'coordinator.yaml');
  const configured = steps.map((type) =>
    type === 'render' ? { type, params: { address: render.url } } : { type },
  );
  const pipeline = { kv_connector: 'kv-nixl', steps: configured };
  writeFileSync(file, JSON.stringify({ gateway: { address: gateway.url }, pipeline }));
  const logger = createLogger({
    service: 'test',
    level: 2,
    destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  });
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_TRACES_SAMPLER_ARG: '1',
    OTEL_BSP_SCHEDULE_DELAY: '1',
    ...options.environment,
  };
  tracing = isTraced ? await startTracing(environment, logger) : undefined;
  coordinator = await createApp({ config: loadConfig({ file }).config, logger, tracing });
  running = await startService(coordinator.service, {
    ...{ host: '127.0.0.1', port: 0, logger, shutdownTimeoutMs: 5_000 },
  });
}

/** Sends a request and reads the answer to its end. */
async function send(
  path = '/v1/chat/completions',
  options: { method?: string; headers?: Record<string, string>; body?: unknown } = {},
): Promise<number | undefined> {
  const { method = 'POST', headers = {}, body = chat } = options;
  const call = httpRequest((running?.url ?? '') + path, { method, headers, agent: false });
  call.end(method === 'POST' ? (typeof body === 'string' ? body : JSON.stringify(body)) : '');
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  return response.statusCode;
}

/** All spans of the requests so far. */
async function flushed(): Promise<CollectedSpan[]> {
  await running?.stop();
  await tracing?.close(5_000);
  return collector.spans();
}

function only(spans: readonly CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name);
  if (found.length !== 1 || !found[0]) {
    throw new Error(`${found.length} spans ${name} in ${spans.map((span) => span.name).join()}`);
  }
  return found[0];
}

/** The lines that name a request. */
const requestLines = () => lines.filter((line) => 'request_id' in line);

const contextOf = (call: RecordedCall | undefined) => call?.headers['traceparent'];

describe('the span of a request', () => {
  it('is named by method and route, and is a child of the client span', async () => {
    await start();
    const headers = { traceparent: sampled, tracestate: 'vendor=1', 'x-request-id': 'id-1' };
    expect(await send('//v1/chat/completions/?key=secret', { headers })).toBe(200);
    expect(only(await flushed(), 'POST /v1/chat/completions')).toMatchObject({
      kind: 'server',
      traceId,
      parentId,
      traceState: 'vendor=1',
      status: 'unset',
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/chat/completions',
        'http.response.status_code': 200,
        'llm_d.coordinator.request_id': 'id-1',
      },
      resource: { 'service.name': 'llm-d-coordinator' },
    });
    expect(JSON.stringify(collector.spans(), withoutBigInts)).not.toContain('secret');
  });

  it.each(['', 'nonsense', `${sampled}, ${sampled}`, `ff-${traceId}-${parentId}-01`])(
    'begins a trace where the client has no valid context: %j',
    async (traceparent) => {
      await start();
      await send(undefined, { headers: { traceparent, tracestate: 'vendor=1' } });
      const span = only(await flushed(), 'POST /v1/chat/completions');
      expect(span).toMatchObject({ parentId: '', traceState: '' });
      expect(span.traceId).toMatch(/^(?!0{32}|0af)[0-9a-f]{32}$/);
    },
  );

  it('has the method alone as its name where the request passes through', async () => {
    await start();
    await send('/v1/models?key=secret', { method: 'GET' });
    const spans = await flushed();
    const span = only(spans, 'GET');
    expect(span.attributes).toMatchObject({
      'url.path': '/v1/models',
      'http.response.status_code': 200,
    });
    expect(span.attributes).not.toHaveProperty(['http.route']);
    expect(only(spans, 'passthrough leg').parentId).toBe(span.spanId);
    expect(spans).toHaveLength(2);
  });

  it.each([
    { name: 'a body that is no JSON', body: '{', status: 400, span: 'POST /v1/chat/completions' },
    { name: 'a method without a route', method: 'GET', status: 405, span: 'GET' },
  ])('tells of $name, which is no failure of the server', async ({ span, status, ...request }) => {
    await start();
    expect(await send(undefined, request)).toBe(status);
    const spans = await flushed();
    expect(spans).toHaveLength(1);
    expect(only(spans, span)).toMatchObject({
      status: 'unset',
      attributes: { 'http.response.status_code': status },
    });
  });

  it('fails with a status of 500 and more', async () => {
    await start({ decode: { status: 500, json: { error: 'SECRET' } } });
    expect(await send()).toBe(500);
    expect(only(await flushed(), 'POST /v1/chat/completions')).toMatchObject({
      status: 'error',
      message: "decode: the worker's HTTP 500 was passed on",
      attributes: { 'error.type': 'RESPONSE_STARTED', 'http.response.status_code': 500 },
    });
  });

  it.each(['/healthz', '/health', '/readyz', '/readyz?verbose', '//healthz/'])(
    'does not exist for the probe %s',
    async (path) => {
      await start();
      expect(await send(path, { method: 'GET', headers: { traceparent: sampled } })).toBe(200);
      expect(await flushed()).toEqual([]);
    },
  );
});

describe('the spans below', () => {
  it('are the pipeline, its steps, and a leg for each call', async () => {
    await start();
    await send();
    const spans = await flushed();
    expect(treeOf(spans)).toEqual([
      'POST /v1/chat/completions',
      '  pipeline',
      '    render',
      '      render leg',
      '    prefill',
      '      prefill leg',
      '    decode',
      '      decode leg',
    ]);
    expect(only(spans, 'pipeline')).toMatchObject({
      kind: 'internal',
      status: 'unset',
      attributes: {
        'gen_ai.request.model': 'm',
        'gen_ai.operation.name': 'chat',
        'gen_ai.usage.input_tokens': 3,
        'llm_d.coordinator.pipeline.step_count': 3,
        'llm_d.coordinator.pipeline.execution_path': 'prefill-decode',
      },
    });
    for (const name of ['render', 'prefill', 'decode']) {
      expect(only(spans, name)).toMatchObject({ kind: 'internal', status: 'unset' });
    }
    for (const span of spans) {
      const parent = spans.find(({ spanId }) => spanId === span.parentId) ?? span;
      expect(span.startNanos).toBeGreaterThanOrEqual(parent.startNanos);
      expect(span.endNanos).toBeLessThanOrEqual(parent.endNanos);
    }
  });

  it('know the phase, pod, bytes and status of each leg', async () => {
    await start();
    await send();
    const spans = await flushed();
    const [prefill, decode] = gateway.calls;
    expect(only(spans, 'prefill leg')).toMatchObject({
      kind: 'client',
      status: 'unset',
      attributes: {
        'llm_d.coordinator.leg.phase': 'prefill',
        'llm_d.coordinator.leg.served_by': '10.0.0.7:8000',
        'http.response.status_code': 200,
        'http.request.body.size': prefill?.body.length,
        'http.response.body.size': prefill?.sentBytes,
      },
    });
    expect(only(spans, 'decode leg').attributes).toEqual({
      'llm_d.coordinator.leg.phase': 'decode',
      'http.response.status_code': 200,
      'http.request.body.size': decode?.body.length,
      'http.response.body.size': decode?.sentBytes,
    });
    expect(only(spans, 'render leg').attributes).not.toHaveProperty([
      'llm_d.coordinator.leg.phase',
    ]);
  });

  it('leave the model out where the request has none', async () => {
    await start({ steps: ['decode'] });
    await send(undefined, { body: { messages: [] } });
    const { attributes } = only(await flushed(), 'pipeline');
    expect(attributes).not.toHaveProperty(['gen_ai.request.model']);
    expect(attributes).toMatchObject({
      'llm_d.coordinator.pipeline.execution_path': 'decode-only',
    });
  });

  it('fail where a step fails, and never repeat what an upstream said', async () => {
    await start({ prefill: { status: 422, json: { error: { message: 'SECRET' } } } });
    expect(await send()).toBe(422);
    const spans = await flushed();
    const failed = {
      status: 'error',
      message: 'prefill: upstream returned HTTP 422',
      attributes: { 'error.type': 'UPSTREAM_ERROR' },
    };
    for (const name of ['prefill leg', 'prefill', 'pipeline']) {
      expect(only(spans, name)).toMatchObject(failed);
    }
    expect(only(spans, 'render').status).toBe('unset');
    expect(only(spans, 'pipeline').attributes).not.toHaveProperty([
      'llm_d.coordinator.pipeline.execution_path',
    ]);
    expect(spans.map(({ eventCount }) => eventCount)).toEqual(spans.map(() => 0));
    expect(JSON.stringify(spans, withoutBigInts)).not.toContain('SECRET');
  });

  it('do not fail when a probe of decode is deferred', async () => {
    await start({ steps: ['conditional-decode', 'decode'] });
    gateway.play([{ status: 412 }, { text: '{}' }]);
    expect(await send()).toBe(200);
    const spans = await flushed();
    expect(new Set(spans.map(({ status }) => status))).toEqual(new Set(['unset']));
    expect(only(spans, 'conditional-decode leg').attributes).toMatchObject({
      'http.response.status_code': 412,
    });
  });

  it('fail when the client leaves, and end all the same', async () => {
    await start({ decode: { beforeHeaders: 'hang' } });
    const call = httpRequest(`${running?.url}/v1/chat/completions`, { method: 'POST' });
    call.on('error', () => {});
    call.end(JSON.stringify(chat));
    await gateway.received(1);
    call.destroy();
    const spans = await collector.until((all) => all.some(({ kind }) => kind === 'server'));
    for (const name of ['decode leg', 'decode', 'pipeline']) {
      expect(only(spans, name)).toMatchObject({ status: 'error' });
      expect(only(spans, name).attributes['error.type']).toBe('CLIENT_GONE');
    }
    const server = only(spans, 'POST /v1/chat/completions');
    expect(server).toMatchObject({ status: 'unset', attributes: { 'error.type': 'CLIENT_GONE' } });
    expect(server.attributes).not.toHaveProperty(['http.response.status_code']);
  });
});

describe('the trace context of a leg', () => {
  it('is that of its own span, in the trace of the client', async () => {
    await start();
    const headers = { traceparent: sampled, tracestate: 'vendor=1', baggage: 'user=7' };
    await send(undefined, { headers });
    const spans = await flushed();
    const legs = { 'render leg': render.calls[0], 'prefill leg': gateway.calls[0] };
    for (const [name, call] of Object.entries({ ...legs, 'decode leg': gateway.calls[1] })) {
      expect(contextOf(call)).toEqual([`00-${traceId}-${only(spans, name).spanId}-01`]);
      expect(call?.headers).toMatchObject({ tracestate: ['vendor=1'], baggage: ['user=7'] });
    }
  });

  it('is that of its own span where the request passes through', async () => {
    await start();
    await send('/v1/models', { method: 'GET', headers: { traceparent: sampled, baggage: 'a=b' } });
    const leg = only(await flushed(), 'passthrough leg');
    expect(contextOf(gateway.calls[0])).toEqual([`00-${traceId}-${leg.spanId}-01`]);
    expect(gateway.calls[0]?.headers['baggage']).toEqual(['a=b']);
    expect(leg.attributes).toMatchObject({
      'llm_d.coordinator.leg.phase': 'decode',
      'http.response.status_code': 200,
    });
  });

  it.each(['/v1/chat/completions', '/v1/other'])(
    'says so where the client does not sample, and no span is sent: %s',
    async (path) => {
      await start();
      await send(path, { headers: { traceparent: notSampled, tracestate: 'vendor=1' } });
      expect(await flushed()).toEqual([]);
      for (const call of [...render.calls, ...gateway.calls]) {
        expect(contextOf(call)).toEqual([
          expect.stringMatching(`^00-${traceId}-(?!${parentId})[0-9a-f]{16}-00$`),
        ]);
        expect(call.headers['tracestate']).toEqual(['vendor=1']);
      }
      expect(gateway.calls.length).toBeGreaterThan(0);
    },
  );

  it('is the one of the client, as it came, where tracing is off', async () => {
    await start({ isTraced: false });
    const headers = { traceparent: 'as it came', tracestate: 'vendor=1', baggage: 'user=7' };
    await send(undefined, { headers });
    await send('/v1/models', { method: 'GET', headers });
    const calls = [...render.calls, ...gateway.calls];
    expect(calls).toHaveLength(4);
    for (const call of calls) {
      expect(call.headers).toMatchObject({
        traceparent: ['as it came'],
        tracestate: ['vendor=1'],
        baggage: ['user=7'],
      });
    }
  });

  it('goes out also where spans are not sent', async () => {
    await start({ environment: { OTEL_TRACES_EXPORTER: 'none' } });
    await send();
    await flushed();
    expect(collector.calls).toEqual([]);
    expect(contextOf(gateway.calls[0])).toEqual([expect.stringMatching(/^00-.*-01$/)]);
  });
});

describe('the log lines of a request', () => {
  it.each([
    { name: 'one that is served', body: chat, lines: 1 },
    { name: 'one that is not sampled', body: chat, traceparent: notSampled, lines: 1 },
    { name: 'one that is refused', body: '{', lines: 1 },
    { name: 'one that fails', body: chat, prefill: { status: 500 }, lines: 2 },
    { name: 'one that passes through', path: '/v1/models', lines: 1 },
  ])('name its span: $name', async (test) => {
    await start(test.prefill ? { prefill: test.prefill } : {});
    const headers = { traceparent: test.traceparent ?? sampled };
    await send(test.path, { headers, ...('body' in test ? { body: test.body } : {}) });
    const spans = await flushed();
    const named = requestLines();
    expect(named).toHaveLength(test.lines);
    const spanId = spans.find(({ kind }) => kind === 'server')?.spanId;
    for (const line of named) {
      expect(line).toMatchObject({ trace_id: traceId });
      expect(line['span_id']).toEqual(spanId ?? expect.stringMatching(/^[0-9a-f]{16}$/));
    }
  });

  it('name none where tracing is off', async () => {
    await start({ isTraced: false });
    await send(undefined, { headers: { traceparent: sampled } });
    await flushed();
    expect(requestLines()).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain('trace_id');
  });
});

describe('a collector', () => {
  it('that is gone costs the requests nothing, and the operator one line', async () => {
    await collector.close();
    await start({ environment: { OTEL_EXPORTER_OTLP_TIMEOUT: '50' } });
    for (let i = 0; i < 5; i++) expect(await send()).toBe(200);
    await flushed();
    const warnings = lines.filter(({ level }) => level === 'warn');
    expect(warnings).toEqual([
      expect.objectContaining({
        code: 'ECONNREFUSED',
        msg: 'spans cannot be sent and are dropped',
      }),
    ]);
  });
});

/** Names by depth, in order of their start. */
function treeOf(spans: readonly CollectedSpan[], parentId = '', depth = 0): string[] {
  return spans
    .filter((span) => span.parentId === parentId)
    .toSorted((a, b) => Number(a.startNanos - b.startNanos))
    .flatMap(({ name, spanId }) => [
      `${'  '.repeat(depth)}${name}`,
      ...treeOf(spans, spanId, depth + 1),
    ]);
}

const withoutBigInts = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? Number(value) : value;
