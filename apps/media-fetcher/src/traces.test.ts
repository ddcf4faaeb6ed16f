import { createLogger, startTracing, type Tracing } from '@llm-d/telemetry';
import { type TraceCollector, traceCollector } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import supertest from 'supertest';
import { type Origin, png, startFetcher, startOrigin, type TestFetcher } from './testing.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';
const traceparent = `00-${traceId}-${parentId}-01`;

let collector: TraceCollector;
let tracing: Tracing | undefined;
let origin: Origin;
let fetcher: TestFetcher;
const seen: unknown[] = [];

beforeEach(async () => {
  collector = await traceCollector();
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  const logger = createLogger({ service: 'test', level: 1, destination: { write() {} } });
  tracing = await startTracing(environment, logger, 'llm-d-media-fetcher');
  origin = await startOrigin(({ url, headers }, response) => {
    seen.push(headers['traceparent']);
    if (url?.startsWith('/gone')) response.writeHead(404).end();
    else response.end(png);
  });
  fetcher = await startFetcher({}, undefined, tracing);
});

afterEach(async () => {
  await fetcher.close();
  await origin.close();
  await collector.close();
});

describe('the trace of a call', () => {
  it('is part of its caller’s, with a span for each item, and no URL', async () => {
    const items = ['a.png?SECRET', 'gone?SECRET'].map((name) => ({
      url: `${origin.base}/${name}`,
    }));
    await supertest(fetcher.url)
      .post('/v1/media/batch')
      .set({ 'content-type': 'application/json', traceparent, 'x-request-id': 'id-1' })
      .send({ items, fail_fast: false });
    await supertest(fetcher.url).get('/metrics');
    await tracing?.close(5_000);
    const spans = collector.spans();
    const server = spans.find(({ kind }) => kind === 'server');
    expect(server).toMatchObject({
      ...{ name: 'POST /v1/media/batch', traceId, parentId, status: 'unset' },
      attributes: { 'http.response.status_code': 200, 'llm_d.coordinator.request_id': 'id-1' },
      resource: { 'service.name': 'llm-d-media-fetcher' },
    });
    const media = spans.filter(({ name }) => name === 'media');
    expect(spans).toHaveLength(1 + media.length);
    const below = { traceId, parentId: server?.spanId, kind: 'client' };
    expect(media.toSorted((a, b) => b.status.localeCompare(a.status))).toMatchObject([
      {
        ...{ ...below, status: 'unset' },
        attributes: { 'llm_d.media.type': 'image/png', 'llm_d.media.size': png.length },
      },
      {
        ...{ ...below, status: 'error', message: expect.stringContaining('404') },
        attributes: { 'error.type': 'media_origin_status', 'llm_d.media.modality': 'image' },
      },
    ]);
    for (const { startNanos, endNanos } of media) expect(endNanos).toBeGreaterThan(startNanos);
    const text = JSON.stringify(spans, (_, value: unknown) =>
      typeof value === 'bigint' ? `${value}` : value,
    );
    expect(text).not.toMatch(/SECRET|127\.0\.0\.1/);
  });

  it('names its lines, and stays inside', async () => {
    await supertest(fetcher.url)
      .post('/v1/media/fetch')
      .set({ 'content-type': 'application/json', traceparent })
      .send({ url: `${origin.base}/a.png` });
    await tracing?.close(5_000);
    const line = fetcher.lines.find(({ msg }) => msg === 'fetched');
    const [server] = collector.spans().filter(({ kind }) => kind === 'server');
    expect(line).toMatchObject({ trace_id: traceId, span_id: server?.spanId });
    expect(seen).not.toContain(traceparent);
    expect(new Set(seen)).toEqual(new Set([undefined]));
  });
});
