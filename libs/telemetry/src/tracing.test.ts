import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { Pipeline, type Step, toCoordinatorError } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import { traceCollector, type TraceCollector } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { OtelTracing } from './otel-tracing.ts';
import { createLogger } from './pino-logger.ts';
import { readTracingOptions } from './tracing-options.ts';
import { type RequestTrace, startTracing, type Tracing } from './tracing.ts';

let lines: Record<string, unknown>[];
let collector: TraceCollector;
let server: Server;
let tracing: Tracing | undefined;

beforeEach(async () => {
  lines = [];
  collector = await traceCollector();
  server = createServer({ keepAliveTimeout: 1 }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await tracing?.close(5_000);
  await collector.close();
});

const logger = () =>
  createLogger({
    service: 'test',
    level: 2,
    destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  });

const environment = (more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_TRACES_SAMPLER_ARG: '1',
  ...more,
});

/** Sends a request to the server and hands its trace to `serve`. */
async function request(
  serve: (
    trace: RequestTrace | undefined,
    request: IncomingMessage,
  ) => Promise<void> | void = () => {},
): Promise<void> {
  server.removeAllListeners('request');
  tracing?.watch(server, () => false);
  server.on('request', (incoming, response) => {
    void Promise.resolve(serve(tracing?.of(incoming), incoming)).then(() => response.end());
  });
  const { port } = server.address() as AddressInfo;
  await (await fetch(`http://127.0.0.1:${port}/x`)).text();
}

/** Runs steps as a pipeline below a request. */
const runSteps = (steps: Record<string, Step>) =>
  request(async (trace) => {
    const named = Object.entries(steps).map(([type, run]) => ({ type, run, isTerminal: true }));
    const observer = trace?.beginPipeline(named.length);
    const ctx = requestContext({ observers: observer ? [observer] : [] });
    const error = await new Pipeline(named).run(ctx).then(
      () => undefined,
      (thrown: unknown) => toCoordinatorError(thrown, ''),
    );
    observer?.end(ctx, error);
  });

describe('a pipeline', () => {
  beforeEach(async () => {
    tracing = await startTracing(environment(), logger());
  });

  it('without steps has its span alone', async () => {
    await runSteps({});
    await tracing?.close(5_000);
    const spans = collector.spans();
    expect(spans.map(({ name }) => name).sort()).toEqual(['GET', 'pipeline']);
    expect(spans.map(({ status }) => status)).toEqual(['unset', 'unset']);
  });

  it('whose step throws anything ends both spans as failed, in words of ours', async () => {
    await runSteps({
      broken: () => Promise.reject(new Error('SECRET')),
      never: () => Promise.resolve('continue'),
    });
    await tracing?.close(5_000);
    const spans = collector.spans();
    expect(spans.map(({ name }) => name).sort()).toEqual(['GET', 'broken', 'pipeline']);
    for (const { name, status, message, attributes } of spans) {
      expect({ name, status, message }).toEqual({
        name,
        status: 'error',
        message: 'internal error',
      });
      expect(attributes['error.type']).toBe('INTERNAL_ERROR');
    }
  });

  it('whose step serves leaves all spans unset', async () => {
    await runSteps({ first: () => Promise.resolve('served') });
    await tracing?.close(5_000);
    expect(collector.spans().map(({ status }) => status)).toEqual(['unset', 'unset', 'unset']);
  });
});

describe('the sampler', () => {
  it.each([
    { ratio: '0', isKept: false },
    { ratio: '1', isKept: true },
  ])('keeps a share of $ratio', async ({ ratio, isKept }) => {
    tracing = await startTracing(environment({ OTEL_TRACES_SAMPLER_ARG: ratio }), logger());
    for (let i = 0; i < 20; i++) await request();
    await tracing?.close(5_000);
    expect(collector.spans()).toHaveLength(isKept ? 20 : 0);
  });
});

describe('the exporter', () => {
  it('sends protobuf with the headers and attributes of the environment', async () => {
    const more = {
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20x',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_SERVICE_NAME: 'mine',
      OTEL_RESOURCE_ATTRIBUTES: 'zone=a',
    };
    tracing = await startTracing(environment(more), logger());
    await request();
    await tracing?.close(5_000);
    expect(collector.calls[0]).toMatchObject({
      method: 'POST',
      path: '/v1/traces',
      headers: {
        'content-type': ['application/x-protobuf'],
        'content-encoding': ['gzip'],
        authorization: ['Bearer x'],
      },
    });
    expect(collector.spans()).toEqual([
      expect.objectContaining({
        name: 'GET',
        resource: expect.objectContaining({ 'service.name': 'mine', zone: 'a' }) as unknown,
      }),
    ]);
  });

  it('is said to fail once, and to work again', async () => {
    const more = { OTEL_BSP_SCHEDULE_DELAY: '1' };
    tracing = await startTracing(environment(more), logger());
    collector.play([{ status: 400, text: 'SECRET' }, { status: 400 }, {}]);
    for (let calls = 0; calls < 3; calls++) {
      await request();
      await collector.until((spans) => spans.length > calls);
    }
    await tracing?.close(5_000);
    expect(lines.map(({ level, msg, code }) => ({ level, msg, code }))).toEqual([
      { level: 'warn', msg: 'spans cannot be sent and are dropped', code: 400 },
      { level: 'info', msg: 'spans are sent again', code: undefined },
    ]);
    expect(JSON.stringify(lines)).not.toContain('SECRET');
  });

  it('that never answers holds no more spans than the limit, and the exit no longer than its own', async () => {
    const { options } = readTracingOptions({
      OTEL_TRACES_SAMPLER_ARG: '1',
      OTEL_BSP_MAX_QUEUE_SIZE: '8',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '4',
    });
    const exporter = new StuckExporter();
    tracing = new OtelTracing(options, logger(), exporter);
    await request();
    for (let i = 0; i < 50; i++) await request();
    await tracing.close(1);
    // A batch on its way, and what waited.
    expect(exporter.batches.flat().length).toBe(12);
    exporter.release();
  });
});

describe('nothing of OpenTelemetry but its interface, which prom-client needs', () => {
  it.each([
    { name: 'is loaded with the package', call: '', isLoaded: false },
    {
      name: 'is loaded where the SDK is disabled',
      call: `await telemetry.startTracing({ OTEL_SDK_DISABLED: 'true' });`,
      isLoaded: false,
    },
    {
      name: 'is missing once tracing starts',
      call: `await telemetry.startTracing({ OTEL_TRACES_EXPORTER: 'none' });`,
      isLoaded: true,
    },
  ])('$name', ({ call, isLoaded }) => {
    const program = `
      import { registerHooks } from 'node:module';
      let isLoaded = false;
      registerHooks({
        resolve(specifier, context, next) {
          isLoaded ||= specifier.startsWith('@opentelemetry/') && specifier !== '@opentelemetry/api';
          return next(specifier, context);
        },
      });
      const telemetry = await import('@llm-d/telemetry');
      ${call}
      console.log(isLoaded);`;
    const output = execFileSync(
      process.execPath,
      ['--conditions=@llm-d/source', '--input-type=module', '--eval', program],
      { cwd: import.meta.dirname, encoding: 'utf8', env: { PATH: process.env['PATH'] } },
    );
    expect(output).toBe(`${isLoaded}\n`);
  });
});

/** Takes batches and says nothing until it is released. */
class StuckExporter implements SpanExporter {
  readonly batches: ReadableSpan[][] = [];
  readonly #waiting: ((result: ExportResult) => void)[] = [];

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.batches.push(spans);
    this.#waiting.push(done);
  }

  release(): void {
    for (const done of this.#waiting) done({ code: ExportResultCode.SUCCESS });
  }

  shutdown(): Promise<void> {
    return Promise.resolve();
  }
}
