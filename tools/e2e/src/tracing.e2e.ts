import { chatOf, drawImage } from '@llm-d/soak';
import { type CollectedSpan, traceCollector, type TraceCollector } from '@llm-d/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from './ask.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';
const traceparent = `00-${traceId}-${parentId}-01`;

let collector: TraceCollector;
let stack: TestStack;

beforeAll(async () => {
  collector = await traceCollector();
  stack = await startTestStack({
    workers: onePodEach,
    coordinator: {
      env: {
        COORDINATOR_TRACING: 'true',
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_BSP_SCHEDULE_DELAY: '3600000',
      },
    },
  });
});

afterAll(async () => {
  await stack.stop();
  await collector.close();
});

/** Names, kinds and statuses by depth, in order of their start. */
function tree(spans: readonly CollectedSpan[], parent: string, depth = 0): string[] {
  return spans
    .filter((span) => span.parentId === parent)
    .toSorted((a, b) => Number(a.startNanos - b.startNanos))
    .flatMap((span) => {
      const { name, kind, status, spanId, attributes } = span;
      const code = attributes['http.response.status_code'];
      const words = [name, kind, status, ...(code === undefined ? [] : [`${Number(code)}`])];
      return ['  '.repeat(depth) + words.join(' '), ...tree(spans, spanId, depth + 1)];
    });
}

describe('a streamed request with two images', () => {
  it('is one trace with every step and leg, sent when the coordinator stops', async () => {
    const images = [await drawImage(901), await drawImage(902)];
    const answer = await ask(stack.coordinatorUrl, {
      path: '/v1/chat/completions',
      body: chatOf('what is on these pictures', { images, stream: true }),
      headers: { traceparent },
      requestId: 'traced-1',
    });
    expect(answer).toMatchObject({ status: 200, isWhole: true });
    // One that is not sampled leaves no span.
    const unsampled = { traceparent: traceparent.replace(/01$/, '00') };
    const body = chatOf('not traced');
    await ask(stack.coordinatorUrl, { path: '/v1/chat/completions', body, headers: unsampled });

    expect(collector.calls).toEqual([]);
    await stack.children.stop('coordinator');
    const spans = collector.spans();
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    expect(tree(spans, parentId)).toEqual([
      'POST /v1/chat/completions server unset 200',
      '  pipeline internal unset',
      '    replace-media-urls internal unset',
      '    render internal unset',
      '      render leg client unset 200',
      '    encode internal unset',
      '      encode leg client unset 200',
      '      encode leg client unset 200',
      '    prefill internal unset',
      '      prefill leg client unset 200',
      '    decode internal unset',
      '      decode leg client unset 200',
    ]);
    expect(spans).toHaveLength(12);

    const named = (wanted: string) => spans.filter(({ name }) => name === wanted);
    const attributes = (wanted: string) => named(wanted).map((span) => span.attributes);
    expect(attributes('decode leg')[0]).toMatchObject({
      'llm_d.coordinator.leg.phase': 'decode',
      'http.response.body.size': answer.body.length,
    });
    const indexes = attributes('encode leg').map((leg) => leg['llm_d.coordinator.leg.index']);
    expect(indexes.toSorted()).toEqual([0, 1]);
    expect(attributes('pipeline')[0]).toMatchObject({
      'gen_ai.request.model': 'sim/model',
      'llm_d.coordinator.pipeline.execution_path': 'encode-prefill-decode',
    });
    expect(attributes('pipeline')[0]?.['gen_ai.usage.input_tokens']).toBeGreaterThan(10);

    // Workers are called in the trace of their own leg.
    const records = await stack.records('traced-1', 'decode');
    const [decode] = named('decode leg');
    expect(records.map(({ headers }) => headers['traceparent'])).toEqual([
      `00-${traceId}-${decode?.spanId}-01`,
    ]);
    const line = stack.log().find(({ request_id: id }) => id === 'traced-1');
    const server = spans.find(({ kind }) => kind === 'server');
    expect(line).toMatchObject({ trace_id: traceId, span_id: server?.spanId });
  });
});
