import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  BadRequestError,
  ClientGoneError,
  type CoordinatorError,
  ResponseStartedError,
  type TimelineEntry,
  UpstreamError,
} from '@llm-d/pipeline';
import { Histogram, Registry } from 'prom-client';
import { HistogramFamily } from './families.ts';
import { type CountedEnd, type CountedRequest, CoordinatorMetrics } from './metrics.ts';

let metrics: CoordinatorMetrics;

beforeEach(() => {
  metrics = new CoordinatorMetrics();
});

const served: CountedEnd = {
  error: undefined,
  requestBytes: 100,
  responseBytes: 200,
  parseMs: 1,
  usage: undefined,
};

const leg = (
  name: string,
  phase?: TimelineEntry['phase'],
  rest: Partial<TimelineEntry> = {},
): TimelineEntry => ({ kind: 'leg', name, phase, startMs: 1, headersMs: 2, endMs: 3, ...rest });

function request(overrides: Partial<CountedRequest> = {}): CountedRequest {
  return {
    ...{ api: 'chat', isStreaming: false, media: [], promptTokens: undefined, timeline: [] },
    elapsedMs: () => 10,
    ...overrides,
  };
}

/** Counts a whole request for the model `m`. */
function run(overrides: Partial<CountedRequest> = {}, end: Partial<CountedEnd> = {}): void {
  metrics.requestArrived();
  const series = metrics.requestParsed('m');
  metrics.requestEnded(series, request(overrides), { ...served, ...end });
}

/** Samples whose name, with labels, begins with the text; without buckets. */
async function samples(prefix: string): Promise<Record<string, number>> {
  const { body } = await metrics.text(undefined);
  const found = body
    .split('\n')
    .filter((line) => line.startsWith(`llm_d_coordinator_${prefix}`) && !line.includes('_bucket'))
    .map((line) => line.slice('llm_d_coordinator_'.length).split(/ (?=\S+$)/))
    .map(([name = '', value]) => [name, Number(value)] as const);
  return Object.fromEntries(found);
}

it('writes histograms as prom-client does', async () => {
  const reference = new Registry();
  const buckets = [0, 1, 2.5];
  const labelNames = ['step'];
  const own = new Registry();
  const theirs = new Histogram({
    name: 'h',
    help: 'H.',
    labelNames,
    buckets,
    registers: [reference],
  });
  const ours = new HistogramFamily({ name: 'h', help: 'H.', labelNames, registry: own }, buckets);
  for (const value of [-1, 0, 1e-9, 1, 2.5, 2.6, 1e9]) {
    for (const step of ['a', 'b"\\\n']) {
      theirs.labels(step).observe(value);
      ours.labels(step).observe(value);
    }
  }
  theirs.labels('gone').observe(1);
  ours.labels('gone').observe(1);
  theirs.remove('gone');
  ours.remove('gone');

  expect(await own.metrics()).toBe(await reference.metrics());
});

describe('a request', () => {
  it('that is served counts once, without an error series', async () => {
    run();
    expect(await samples('request_')).toEqual({
      'request_total{model_name="m"}': 1,
      'request_duration_seconds_sum{model_name="m"}': 0.01,
      'request_duration_seconds_count{model_name="m"}': 1,
      'request_size_bytes_sum{model_name="m"}': 100,
      'request_size_bytes_count{model_name="m"}': 1,
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="other"}': 0,
      'request_running{model_name="m"}': 0,
    });
  });

  it.each<{ name: string; error: CoordinatorError; code: string }>([
    { name: 'an upstream 503', error: new UpstreamError('render', 503), code: 'upstream_5xx' },
    {
      name: 'a streamed 500 of decode',
      error: new ResponseStartedError('decode', 500),
      code: 'upstream_5xx',
    },
    { name: 'a client that left', error: new ClientGoneError(), code: 'cancelled' },
  ])('that fails with $name counts as $code', async ({ error, code }) => {
    run({}, { error });
    expect(await samples('request_error_total')).toEqual({
      [`request_error_total{model_name="m",error_code="${code}"}`]: 1,
    });
    expect(await samples('request_total')).toEqual({ 'request_total{model_name="m"}': 1 });
  });

  it('counts as running under unknown until its model is known', async () => {
    metrics.requestArrived();
    expect(await samples('request_running')).toMatchObject({
      'request_running{model_name="unknown"}': 1,
    });
    const series = metrics.requestParsed('m');
    expect(await samples('request_running')).toMatchObject({
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="m"}': 1,
    });
    metrics.requestEnded(series, request(), served);
    expect(await samples('request_running')).toMatchObject({
      'request_running{model_name="m"}': 0,
    });
  });

  it('that is refused before its model is known counts as unknown', async () => {
    metrics.requestArrived();
    metrics.requestRefused(new BadRequestError('x'), {
      ...{ requestBytes: 5, responseBytes: 7, durationMs: 2 },
    });
    expect(await samples('request_')).toMatchObject({
      'request_total{model_name="unknown"}': 1,
      'request_error_total{model_name="unknown",error_code="bad_request"}': 1,
      'request_size_bytes_sum{model_name="unknown"}': 5,
      'request_running{model_name="unknown"}': 0,
    });
    expect(await samples('response_size_bytes')).toEqual({
      'response_size_bytes_sum{stream="false"}': 7,
      'response_size_bytes_count{stream="false"}': 1,
    });
  });

  it.each([
    { name: 'four ids', length: 4, counts: { sum: 4, count: 1 } },
    { name: 'an empty list', length: 0, counts: { sum: 0, count: 1 } },
  ])('whose render gave $name has one observation of input tokens', async ({ length, counts }) => {
    run({ promptTokens: length });
    expect(await samples('request_input_tokens')).toEqual({
      'request_input_tokens_sum{model_name="m"}': counts.sum,
      'request_input_tokens_count{model_name="m"}': counts.count,
    });
  });

  it('without render has no observation of input tokens', async () => {
    run();
    expect(await samples('request_input_tokens_count')).toEqual({});
  });

  it.each([
    { isStreaming: true, label: 'true' },
    { isStreaming: false, label: 'false' },
  ])('has its answer counted under stream="$label"', async ({ isStreaming, label }) => {
    run({ isStreaming });
    expect(await samples('response_size_bytes_sum')).toEqual({
      [`response_size_bytes_sum{stream="${label}"}`]: 200,
    });
  });

  it('has overhead beside parsing and steps, never less than none', async () => {
    const step: TimelineEntry = { kind: 'step', name: 'decode', startMs: 1, endMs: 7 };
    run({ timeline: [step] });
    run({ timeline: [{ ...step, endMs: 70 }] });
    const overhead = await samples('orchestration_overhead_seconds');
    expect(overhead['orchestration_overhead_seconds_sum{route="chat_completions"}']).toBeCloseTo(
      0.003,
    );
    expect(overhead['orchestration_overhead_seconds_count{route="chat_completions"}']).toBe(2);
  });

  it.each([
    { api: 'chat' as const, route: 'chat_completions' },
    { api: 'completions' as const, route: 'completions' },
    { api: 'generate' as const, route: 'generate' },
    { api: 'responses' as const, route: 'unknown' },
  ])('of $api counts its encode legs under route="$route"', async ({ api, route }) => {
    run({ api, timeline: [leg('encode', 'encode'), leg('encode', 'encode')] });
    run({ api });
    expect(await samples('encode_subrequests')).toEqual({
      [`encode_subrequests_sum{route="${route}"}`]: 2,
      [`encode_subrequests_count{route="${route}"}`]: 2,
    });
  });

  it('has tokens counted as its usage tells, and an unreadable usage counted', async () => {
    run({}, { usage: { promptTokens: 70, completionTokens: 5, cachedTokens: 64 } });
    run({}, { usage: { promptTokens: 1, completionTokens: undefined, cachedTokens: undefined } });
    run({}, { usage: null });
    expect(await samples('usage_tokens_total')).toEqual({
      'usage_tokens_total{model_name="m",kind="prompt"}': 71,
      'usage_tokens_total{model_name="m",kind="completion"}': 5,
      'usage_tokens_total{model_name="m",kind="cached"}': 64,
    });
    expect(await samples('unreadable_usage_total')).toEqual({ unreadable_usage_total: 1 });
  });
});

describe('execution_path_total', () => {
  const failed = new UpstreamError('decode', 500);

  it.each([
    { name: 'conditional-decode alone', steps: ['conditional-decode'], path: 'decode-only' },
    {
      name: 'a failing conditional-decode',
      ...{ steps: ['conditional-decode'], error: failed, path: 'decode-only' },
    },
    { name: 'prefill and decode', steps: ['prefill', 'decode'], path: 'prefill-decode' },
    {
      name: 'prefill and a failing decode',
      ...{ steps: ['prefill', 'decode'], error: failed, path: 'prefill-decode' },
    },
    { name: 'both in one step', steps: ['prefill-decode'], path: 'prefill-decode' },
    { name: 'all three', steps: ['encode', 'prefill', 'decode'], path: 'encode-prefill-decode' },
    { name: 'encode without prefill', steps: ['encode', 'decode'], path: 'decode-only' },
    { name: 'a prefill that fails', steps: ['prefill'], error: failed, path: undefined },
    { name: 'nothing', steps: [], path: undefined },
  ])('has for $name $path', async ({ steps, error, path }) => {
    const timeline = steps.map((name) => ({ kind: 'step' as const, name, startMs: 0, endMs: 1 }));
    run({ timeline }, { error });
    expect(await samples('execution_path_total')).toEqual(
      path ? { [`execution_path_total{model_name="m",path="${path}"}`]: 1 } : {},
    );
  });
});

describe('media_items', () => {
  const step: TimelineEntry = { kind: 'step', name: 'replace-media-urls', startMs: 0, endMs: 1 };
  const failed = new BadRequestError('x');
  failed.step = 'replace-media-urls';

  it.each([
    {
      name: 'two images and a video',
      given: {
        timeline: [step],
        media: [
          { modality: 'image' as const },
          { modality: 'image' as const },
          { modality: 'video' as const },
        ],
      },
      images: 2,
      others: 1,
    },
    { name: 'none of a chat', given: { timeline: [step] }, images: 0, others: 0 },
    {
      name: 'none of a generate request',
      given: { api: 'generate' as const, promptTokens: 1 },
      images: 0,
      others: 0,
    },
  ])('counts $name', async ({ given, images, others }) => {
    run(given);
    expect(await samples('media_items')).toEqual({
      'media_items_sum{media_type="image"}': images,
      'media_items_count{media_type="image"}': 1,
      'media_items_sum{media_type="other"}': others,
      'media_items_count{media_type="other"}': 1,
    });
  });

  it.each([
    { name: 'nothing looked for media', timeline: [], error: undefined },
    { name: 'the look for it failed', timeline: [step], error: failed },
  ])('has no observation when $name', async ({ timeline, error }) => {
    run({ timeline }, { error });
    expect(await samples('media_items')).toEqual({});
  });
});

describe('a step', () => {
  it('counts while it runs and when it has ended', async () => {
    const entry: TimelineEntry = { kind: 'step', name: 'decode', startMs: 10 };
    metrics.started(entry);
    expect(await samples('step_running')).toEqual({ 'step_running{step="decode"}': 1 });
    metrics.finished({ ...entry, endMs: 2_010 }, undefined);
    expect(await samples('step_')).toEqual({
      'step_running{step="decode"}': 0,
      'step_duration_seconds_sum{step="decode"}': 2,
      'step_duration_seconds_count{step="decode"}': 1,
    });
  });

  it('that fails counts by its error', async () => {
    const entry: TimelineEntry = { kind: 'step', name: 'render', startMs: 0, endMs: 1 };
    metrics.started(entry);
    metrics.finished(entry, new UpstreamError('render', 404));
    expect(await samples('step_errors_total')).toEqual({
      'step_errors_total{step="render",error_code="upstream_4xx"}': 1,
    });
  });
});

describe('a leg', () => {
  it.each([
    { name: 'its headers', given: leg('render'), upstream: 'render', seconds: 0.001 },
    {
      name: 'its failure',
      given: { ...leg('prefill', 'prefill'), headersMs: undefined } as never,
      upstream: 'prefill',
      seconds: 0.002,
    },
    {
      name: 'its headers, by its phase',
      given: leg('prefill-decode', 'decode'),
      upstream: 'decode',
      seconds: 0.001,
    },
  ])('counts with the time until $name', async ({ given, upstream, seconds }) => {
    metrics.started(given);
    metrics.finished(given, undefined);
    expect(await samples('upstream_request')).toEqual({
      [`upstream_request_total{upstream="${upstream}"}`]: 1,
      [`upstream_request_duration_seconds_sum{upstream="${upstream}"}`]: seconds,
      [`upstream_request_duration_seconds_count{upstream="${upstream}"}`]: 1,
    });
  });

  it.each([
    { status: 200, error: undefined, result: 'served' },
    { status: 412, error: undefined, result: 'deferred' },
    { status: 500, error: new ResponseStartedError('x', 500), result: 'error' },
    { status: undefined, error: new Error('reset'), result: 'transport_error' },
    { status: 200, error: new ClientGoneError(), result: 'cancelled' },
  ])('of conditional-decode with $status counts as $result', async ({ status, error, result }) => {
    const entry = leg('conditional-decode', 'decode', status === undefined ? {} : { status });
    metrics.finished(entry, error);
    expect(await samples('conditional_decode_probes_total')).toEqual({
      [`conditional_decode_probes_total{result="${result}"}`]: 1,
    });
  });
});

it('counts a download and the call that it was', async () => {
  metrics.downloadEnded({ result: 'success', headersMs: 5, durationMs: 20 });
  metrics.downloadEnded({ result: 'error', headersMs: undefined, durationMs: 32 });
  expect(await samples('media_download')).toEqual({
    'media_download_duration_seconds_sum{result="success"}': 0.02,
    'media_download_duration_seconds_count{result="success"}': 1,
    'media_download_duration_seconds_sum{result="error"}': 0.032,
    'media_download_duration_seconds_count{result="error"}': 1,
  });
  expect(await samples('upstream_request')).toMatchObject({
    'upstream_request_total{upstream="replace-media-urls"}': 2,
    'upstream_request_duration_seconds_sum{upstream="replace-media-urls"}': 0.037,
  });
});

it('counts hand-offs by connector, and by outcome when they end', async () => {
  const handoff = { kind: 'kv', connector: 'kv-nixl' } as const;
  metrics.handoff({ ...handoff, event: 'offered' });
  metrics.handoff({ ...handoff, event: 'offered' });
  metrics.handoff({ ...handoff, event: 'used' });
  metrics.handoff({ ...handoff, event: 'released' });
  metrics.handoff({ kind: 'ec', connector: 'ec-nixl', event: 'expired' });
  expect(await samples('kv_handoffs')).toEqual({
    'kv_handoffs_offered_total{connector="kv-nixl"}': 2,
    'kv_handoffs_total{connector="kv-nixl",outcome="used"}': 1,
    'kv_handoffs_total{connector="kv-nixl",outcome="released"}': 1,
  });
  expect(await samples('ec_handoffs')).toEqual({
    'ec_handoffs_total{connector="ec-nixl",outcome="expired"}': 1,
  });
});

it('shows what the limits of the service hold and refuse at that moment', async () => {
  expect(await samples('admission')).toEqual({ admission_queued: 0, admission_body_bytes: 0 });
  const admission = { queued: 2, bodyBytesHeld: 7, refused: { queue_full: 3 } };
  metrics.watchAdmission(admission);
  admission.queued = 1;
  await samples('admission');
  expect(await samples('admission')).toEqual({
    admission_queued: 1,
    admission_body_bytes: 7,
    'admission_refused_total{reason="queue_full"}': 3,
  });
});

describe('the buckets', () => {
  const bounds = async (name: string): Promise<string[]> => {
    run({ promptTokens: 1 });
    const { body } = await metrics.text(undefined);
    const pattern = new RegExp(`^llm_d_coordinator_${name}_bucket\\{le="([^"]+)"`, 'gm');
    return [...body.matchAll(pattern)].map(([, bound = '']) => bound);
  };

  it.each([
    { name: 'request_duration_seconds', count: 36, first: '0.005', last: '3600' },
    { name: 'request_size_bytes', count: 26, first: '64', last: '1073741824' },
    { name: 'request_input_tokens', count: 20, first: '1', last: '1048576' },
    { name: 'encode_subrequests', count: 11, first: '0', last: '256' },
  ])('of $name go from $first to $last', async ({ name, count, first, last }) => {
    const found = await bounds(name);
    expect(found).toHaveLength(count);
    expect([found[0], ...found.slice(-2)]).toEqual([first, last, '+Inf']);
  });
});

describe('the text', () => {
  it('is that of Prometheus unless OpenMetrics is asked for', async () => {
    run();
    const { contentType, body } = await metrics.text('text/plain');
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(body).toContain('# TYPE llm_d_coordinator_request_total counter\n');
    expect(body).not.toContain('# EOF');
  });

  it('is OpenMetrics for those who name it, and stays that of Prometheus for others', async () => {
    run();
    const before = await metrics.text(undefined);
    const { contentType, body } = await metrics.text(
      'application/openmetrics-text;version=1.0.0,*/*;q=0.1',
    );
    expect(contentType).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
    expect(body).toContain('# TYPE llm_d_coordinator_request counter\n');
    expect(body).toContain('llm_d_coordinator_request_total{model_name="m"} 1\n');
    expect(body).not.toMatch(/\n\n/);
    expect(body.endsWith('\n# EOF\n')).toBe(true);
    expect(await metrics.text(undefined)).toEqual(before);
  });

  it('has counters that end in _total, as OpenMetrics wants it', async () => {
    const { body } = await metrics.text(undefined);
    const counters = [...body.matchAll(/^# TYPE (\S+) counter$/gm)].map(([, name]) => name);
    expect(counters.length).toBeGreaterThan(5);
    expect(counters.filter((name) => !name?.endsWith('_total'))).toEqual([]);
  });
});
