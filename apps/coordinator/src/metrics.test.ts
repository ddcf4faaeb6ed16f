import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type RigOptions, TestRig } from './rig/testing.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const image = {
  type: 'image_url',
  image_url: {
    url: 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  },
};

let rig: TestRig | undefined;

async function open(options: RigOptions = {}): Promise<TestRig> {
  rig = await TestRig.open(options);
  return rig;
}

afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

describe('the metrics of requests (coordinator.md 8.1)', () => {
  it('count a served request once, with its size and its tokens', async () => {
    const { gateway } = await open();
    const { text } = await (rig as TestRig).post(chat);
    expect(gateway.calls).toHaveLength(2);
    expect(await rig?.metrics('request_')).toEqual({
      'request_total{model_name="m"}': 1,
      'request_duration_seconds_count{model_name="m"}': 1,
      'request_size_bytes_sum{model_name="m"}': JSON.stringify(chat).length,
      'request_size_bytes_count{model_name="m"}': 1,
      'request_input_tokens_sum{model_name="m"}': 4,
      'request_input_tokens_count{model_name="m"}': 1,
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="other"}': 0,
      'request_running{model_name="m"}': 0,
    });
    expect(await rig?.metrics('response_size_bytes_sum')).toEqual({
      'response_size_bytes_sum{stream="false"}': text.length,
    });
    expect(await rig?.metrics('upstream_request_total')).toEqual({
      'upstream_request_total{upstream="render"}': 1,
      'upstream_request_total{upstream="prefill"}': 1,
      'upstream_request_total{upstream="decode"}': 1,
    });
    expect(await rig?.metrics('step_')).toEqual({
      'step_running{step="render"}': 0,
      'step_running{step="prefill"}': 0,
      'step_running{step="decode"}': 0,
      'step_duration_seconds_count{step="render"}': 1,
      'step_duration_seconds_count{step="prefill"}': 1,
      'step_duration_seconds_count{step="decode"}': 1,
    });
    expect(await rig?.metrics('execution_path_total')).toEqual({
      'execution_path_total{model_name="m",path="prefill-decode"}': 1,
    });
    expect(await rig?.metrics('usage_tokens_total')).toEqual({
      'usage_tokens_total{model_name="m",kind="prompt"}': 3,
      'usage_tokens_total{model_name="m",kind="completion"}': 2,
    });
  });

  it('count every encode leg, and the media', async () => {
    const test = await open({
      steps: ['replace-media-urls', 'render', 'encode', 'prefill', 'decode'],
    });
    test.render.play({
      json: {
        token_ids: [1, 2, 2, 3],
        features: {
          mm_hashes: { image: ['h'] },
          mm_placeholders: { image: [{ offset: 1, length: 2 }] },
          kwargs_data: { image: ['x'] },
        },
      },
    });
    const { status } = await test.post({
      model: 'm',
      messages: [{ role: 'user', content: [image] }],
    });
    expect(status).toBe(200);
    expect(await test.metrics('encode_subrequests')).toEqual({
      'encode_subrequests_sum{route="chat_completions"}': 1,
      'encode_subrequests_count{route="chat_completions"}': 1,
    });
    expect(await test.metrics('media_items')).toMatchObject({
      'media_items_sum{media_type="image"}': 1,
      'media_items_sum{media_type="other"}': 0,
    });
    expect(await test.metrics('execution_path_total')).toEqual({
      'execution_path_total{model_name="m",path="encode-prefill-decode"}': 1,
    });
    // Nothing was downloaded.
    expect(await test.metrics('media_download')).toEqual({});
  });

  it.each([
    {
      name: 'an upstream 503',
      phases: { prefill: { status: 503 } },
      status: 503,
      code: 'upstream_5xx',
      step: 'prefill',
    },
    {
      name: 'a 500 that decode streams to the client',
      phases: { decode: { status: 500, json: { error: { message: 'x' } } } },
      status: 500,
      code: 'upstream_5xx',
      step: 'decode',
    },
    {
      name: 'a refused prompt',
      phases: { prefill: { status: 422 } },
      status: 422,
      code: 'upstream_4xx',
      step: 'prefill',
    },
    {
      name: 'a reset',
      phases: { prefill: { beforeHeaders: 'reset' as const } },
      status: 502,
      code: 'upstream_transport',
      step: 'prefill',
    },
    {
      name: 'C14: NaN in a prefill answer',
      phases: { prefill: { text: '{"kv_transfer_params":{"a":1},"logprob":NaN}' } },
      status: 502,
      code: 'internal',
      step: 'prefill',
    },
  ])('count $name as $code of $step', async ({ phases, status, code, step }) => {
    const test = await open({ phases });
    expect((await test.post(chat)).status).toBe(status);
    expect(await test.metrics('request_error_total')).toEqual({
      [`request_error_total{model_name="m",error_code="${code}"}`]: 1,
    });
    expect(await test.metrics('step_errors_total')).toEqual({
      [`step_errors_total{step="${step}",error_code="${code}"}`]: 1,
    });
    expect(await test.metrics('request_total')).toEqual({ 'request_total{model_name="m"}': 1 });
    expect(await test.metrics('request_running{model_name="m"}')).toEqual({
      'request_running{model_name="m"}': 0,
    });
  });

  it.each([
    { name: 'a malformed body', body: '{"model":', bytes: 9 },
    { name: 'a null body', body: 'null', bytes: 4 },
    { name: 'an oversized body', body: `"${'x'.repeat(1_048_576)}"`, bytes: 0 },
  ])('count $name as a bad request of an unknown model', async ({ body, bytes }) => {
    const test = await open({ server: { max_request_body_size: 1 } });
    const { text } = await test.post(body);
    expect(await test.metrics('request_')).toEqual({
      'request_total{model_name="unknown"}': 1,
      'request_error_total{model_name="unknown",error_code="bad_request"}': 1,
      'request_duration_seconds_count{model_name="unknown"}': 1,
      'request_size_bytes_sum{model_name="unknown"}': bytes,
      'request_size_bytes_count{model_name="unknown"}': 1,
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="other"}': 0,
    });
    expect(await test.metrics('response_size_bytes_sum')).toEqual({
      'response_size_bytes_sum{stream="false"}': text.length,
    });
  });

  it('count a body that is cut off with the bytes that came', async () => {
    const test = await open();
    const socket = connect(Number(new URL(test.service.url).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.write('POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n12345');
    await test.reached('request_running{model_name="unknown"}', 1);
    // The bytes come with the headers, so they have been read when the gauge has moved.
    socket.destroy();
    await test.reached('request_total{model_name="unknown"}', 1);
    expect(await test.metrics('request_size_bytes_sum')).toEqual({
      'request_size_bytes_sum{model_name="unknown"}': 5,
    });
    expect(await test.metrics('request_error_total')).toEqual({
      'request_error_total{model_name="unknown",error_code="bad_request"}': 1,
    });
    expect(await test.metrics('request_running{model_name="unknown"}')).toEqual({
      'request_running{model_name="unknown"}': 0,
    });
  });

  it('show a request under unknown while its body comes, and then under its model', async () => {
    const test = await open({ phases: { decode: { beforeHeaders: 'hang' } } });
    const call = test.begin();
    const closed = once(call, 'error');
    call.write('{"model":');
    await test.reached('request_running{model_name="unknown"}', 1);
    call.end('"m","messages":[]}');
    await test.gateway.received(1);
    expect(await test.metrics('request_running')).toEqual({
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="other"}': 0,
      'request_running{model_name="m"}': 1,
    });
    expect(await test.metrics('step_running{step="decode"}')).toEqual({
      'step_running{step="decode"}': 1,
    });
    call.destroy();
    await closed;
    await test.reached('request_running{model_name="m"}', 0);
  });

  it('C04: count a client that leaves during prefill as cancelled', async () => {
    const test = await open({ phases: { prefill: { beforeHeaders: 'hang' } } });
    const call = test.begin();
    const closed = once(call, 'error');
    call.end(JSON.stringify(chat));
    const leg = await test.gateway.received(0);
    call.destroy();
    await Promise.all([closed, leg.ended]);
    const sample = 'request_error_total{model_name="m",error_code="cancelled"}';
    await test.reached(sample, 1);
    expect(await test.metrics('request_error_total')).toEqual({ [sample]: 1 });
    expect(await test.metrics('step_errors_total')).toEqual({
      'step_errors_total{step="prefill",error_code="cancelled"}': 1,
    });
    // Prefill alone is no path.
    expect(await test.metrics('execution_path_total')).toEqual({});
    expect(await test.summary()).toMatchObject({ outcome: 'cancelled', status: 499 });
  });

  it.each([
    { probe: { text: '{}' }, result: 'served', path: 'decode-only' },
    { probe: { status: 412 }, result: 'deferred', path: 'prefill-decode' },
    { probe: { status: 500, json: {} }, result: 'error', path: 'decode-only' },
    { probe: { beforeHeaders: 'reset' as const }, result: 'transport_error', path: 'decode-only' },
  ])('count a conditional decode that is $result', async ({ probe, result, path }) => {
    const test = await open({
      phases: { probe },
      steps: ['render', 'conditional-decode', 'prefill', 'decode'],
    });
    await test.post(chat);
    expect(await test.metrics('conditional_decode_probes_total')).toEqual({
      [`conditional_decode_probes_total{result="${result}"}`]: 1,
    });
    expect(await test.metrics('execution_path_total')).toEqual({
      [`execution_path_total{model_name="m",path="${path}"}`]: 1,
    });
  });

  it('leave passthrough requests and probes out', async () => {
    const test = await open({ phases: { decode: { json: {} } } });
    expect((await test.post({}, {}, '/v1/embeddings')).status).toBe(200);
    expect((await test.post({}, {}, '/healthz')).status).toBe(405);
    expect(await test.metrics('request_')).toEqual({
      'request_running{model_name="unknown"}': 0,
      'request_running{model_name="other"}': 0,
    });
  });

  const usage =
    '{"prompt_tokens":70,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}';

  it.each([
    { name: 'C07 (a)', events: `data: {"choices":[],"usage":${usage}}\n\ndata: [DONE]\n\n` },
    {
      name: 'C07 (b)',
      events: `data: {"choices":[{"index":0,"delta":{}}],"usage":${usage}}\n\ndata: [DONE]\n\n`,
    },
    {
      name: 'C14 in an event',
      events: `data: {"choices":[{"logprobs":[-Infinity,NaN]}],"usage":${usage}}\n\ndata: [DONE]\n\n`,
    },
  ])(
    '$name: the counters are the numbers of the stream, which passes unchanged',
    async ({ events }) => {
      const headers = { 'content-type': 'text/event-stream' };
      const test = await open({ phases: { decode: { headers, text: events } } });
      expect((await test.post({ ...chat, stream: true })).text).toBe(events);
      expect(await test.metrics('usage_tokens_total')).toEqual({
        'usage_tokens_total{model_name="m",kind="prompt"}': 70,
        'usage_tokens_total{model_name="m",kind="completion"}': 5,
        'usage_tokens_total{model_name="m",kind="cached"}': 64,
      });
      expect(await test.summary()).toMatchObject({
        ...{ prompt_tokens: 4, completion_tokens: 5, cached_tokens: 64 },
      });
    },
  );

  it('C14: an odd answer passes unchanged, and what cannot be read is counted', async () => {
    const text =
      '{"choices":[{"logprobs":{"token_logprobs":[-Infinity,NaN]}}],"usage":{"prompt_tokens":NaN}}';
    const test = await open({ phases: { decode: { text } } });
    expect(await test.post(chat)).toMatchObject({ status: 200, text });
    expect(await test.metrics('unreadable_usage_total')).toEqual({ unreadable_usage_total: 1 });
    expect(await test.metrics('request_error_total')).toEqual({});
  });
});
