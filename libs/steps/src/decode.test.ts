import { rootOf } from '@llm-d/json-document';
import { type RequestContext } from '@llm-d/pipeline';
import { MemoryLog, MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { decode } from './decode.ts';
import { prefill } from './prefill.ts';
import { answerFile, Rig, testdata } from './testing.ts';

let rig: Rig;
let sink: MemorySink;
let log: MemoryLog;
beforeEach(async () => {
  rig = await Rig.open();
  [sink, log] = [new MemorySink(), new MemoryLog()];
});
afterEach(() => rig.close());

const nixl = { kv_connector: 'kv-nixl' };
const handOff =
  '{"remote_block_ids":[[1,9007199254740993]],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":5600,"tp_size":1}';

function context(
  body = '{"messages":[]}',
  answered: string | undefined = handOff,
  api: 'chat' | 'completions' | 'generate' = 'chat',
): RequestContext {
  const ctx = requestContext({ api, body, sink, log });
  if (answered !== '') ctx.kvTransferParams = rootOf(Buffer.from(answered));
  ctx.kvReceivedAt = performance.now();
  return ctx;
}

/** `kv_transfer_params` of the last decode leg as it was sent. */
function sentParams(): unknown {
  return (rig.bodies('decode').at(-1) ?? {})['kv_transfer_params'];
}

describe('decode', () => {
  it.each(['json', 'sse'])('hands the answer on as %s and is done', async (kind) => {
    rig.gateway.play(answerFile(`decode.chat.${kind}`));
    const ctx = context(testdata('requests/chat.text.json'));
    expect(await rig.step(decode, nixl)(ctx)).toBe('served');
    expect(sink).toMatchObject({
      status: 200,
      text: testdata(`answers/decode.chat.${kind}`),
      ended: 'whole',
    });
    expect(rig.gateway.calls[0]?.path).toBe('/v1/chat/completions');
    expect(rig.gateway.calls[0]?.headers).toMatchObject({
      'epp-profile': ['decode'],
      'x-request-id': ['test-1'],
    });
    expect(rig.gateway.calls[0]?.headers['prefer']).toBeUndefined();
  });

  it.each([
    { api: 'chat', path: '/v1/chat/completions' },
    { api: 'completions', path: '/v1/completions' },
    { api: 'generate', path: '/inference/v1/generate' },
  ] as const)(
    'asks for $api at the client’s own path and keeps its limits',
    async ({ api, path }) => {
      const body =
        '{"max_tokens":64,"min_tokens":3,"stream":true,"stream_options":{"include_usage":true},"sampling_params":{"max_tokens":50}}';
      await rig.step(decode, nixl)(context(body, handOff, api));
      expect(rig.gateway.calls[0]?.path).toBe(path);
      expect(rig.gateway.calls[0]?.body.toString()).toBe(
        `${body.slice(0, -1)},"kv_transfer_params":${handOff.slice(0, -1)},"do_remote_decode":false,"do_remote_prefill":true}}`,
      );
      expect(log.lines).toEqual([]);
    },
  );

  it('never carries the descriptors of the images', async () => {
    const ctx = context();
    ctx.ecTransferParams = [rootOf(Buffer.from('{"h":{}}'))];
    await rig.step(decode, nixl)(ctx);
    expect(rig.gateway.calls[0]?.body.toString()).not.toContain('ec_transfer_params');
  });

  it('takes over from prefill what prefill answered', async () => {
    rig.gateway.play(({ headers }) =>
      headers['epp-profile']?.[0] === 'prefill'
        ? answerFile('prefill.kv-nixl.json')
        : answerFile('decode.chat.json'),
    );
    const ctx = context('{"messages":[]}', '');
    await rig.step(prefill, nixl)(ctx);
    await rig.step(decode, nixl)(ctx);
    expect(sentParams()).toMatchObject({
      remote_host: '10.0.2.1',
      remote_block_ids: [[1, 2]],
      do_remote_prefill: true,
    });
  });

  it('with shared storage sends the two flags alone, whatever prefill answered', async () => {
    await rig.step(decode)(context());
    expect(sentParams()).toEqual({ do_remote_decode: false, do_remote_prefill: true });
  });
});

describe('a hand-off that is not whole', () => {
  // engine-verified.md 4: a real decode pod ends on it.
  it.each([
    { name: 'nothing', answered: '', missing: 5 },
    { name: 'the flags', answered: '{"do_remote_prefill":true}', missing: 5 },
    { name: 'no blocks', answered: handOff.replace('[[1,9007199254740993]]', '[]'), missing: 1 },
    { name: 'no engine', answered: handOff.replace('"e"', 'null'), missing: 1 },
  ])(
    'because prefill answered $name reaches no worker, with a warning',
    async ({ answered, missing }) => {
      await rig.step(decode, nixl)(context('{"messages":[]}', answered));
      expect(rig.gateway.calls[0]?.body.toString()).toBe('{"messages":[]}');
      expect(log.messages('warn')).toEqual([
        'prefill answered no whole KV hand-off, decode computes the prompt itself',
      ]);
      expect((log.lines[0]?.fields as { missing: unknown }).missing).toHaveLength(missing);
    },
  );
});

describe('a hand-off past its lease', () => {
  const past = (ctx: RequestContext): RequestContext => {
    ctx.kvReceivedAt = performance.now() - 31_000;
    return ctx;
  };

  it('is made anew once, and the new one is sent', async () => {
    rig.gateway.play(({ headers }) =>
      headers['epp-profile']?.[0] === 'prefill' ? answerFile('prefill.kv-nixl.json') : {},
    );
    const ctx = context('{"messages":[]}', '');
    await rig.step(prefill, nixl)(ctx);
    await rig.step(decode, nixl)(past(ctx));
    expect(rig.gateway.calls.map(({ headers }) => headers['epp-profile']?.[0])).toEqual([
      'prefill',
      'prefill',
      'decode',
    ]);
    expect(sentParams()).toMatchObject({ remote_request_id: 'chatcmpl-test-1-1f2e3d4c' });
    expect(log.messages('warn')).toEqual(['the KV hand-off is past its lease, prefill runs again']);
  });

  it('fails the request when prefill fails then; decode is not asked', async () => {
    rig.gateway.play([answerFile('prefill.kv-nixl.json'), { status: 503 }]);
    const ctx = context('{"messages":[]}', '');
    await rig.step(prefill, nixl)(ctx);
    await expect(rig.step(decode, nixl)(past(ctx))).rejects.toMatchObject({ status: 503 });
    expect(rig.legs('decode')).toEqual([]);
  });

  it('is good with shared storage, which has no lease', async () => {
    rig.gateway.play({ json: {} });
    const ctx = context();
    await rig.step(prefill)(ctx);
    await rig.step(decode)(past(ctx));
    expect(rig.legs('prefill')).toHaveLength(1);
  });

  it('is what the configuration says', async () => {
    const ctx = past(context());
    let renewed = 0;
    ctx.renewKv = () => Promise.resolve(void renewed++);
    await rig.step(decode, nixl, { kvLeaseMs: 60_000 })(ctx);
    expect(renewed).toBe(0);
  });
});

describe('several sequences', () => {
  it('with kv-nixl are decoded without a hand-off', async () => {
    await rig.step(decode, nixl)(context('{"n":2}'));
    expect(rig.gateway.calls[0]?.body.toString()).toBe('{"n":2}');
    expect(log.lines).toEqual([]);
  });

  it('get the hand-off where that is configured', async () => {
    await rig.step(decode, nixl, { kvMultiSequence: 'transfer' })(context('{"n":2}'));
    expect(sentParams()).toBeDefined();
  });
});

describe('a decode that fails', () => {
  it('with an answer hands it to the client', async () => {
    rig.gateway.play({ status: 502, json: 'worker down' });
    await expect(rig.step(decode, nixl)(context())).rejects.toMatchObject({
      code: 'RESPONSE_STARTED',
      status: 502,
    });
    expect(sink).toMatchObject({ status: 502, text: '"worker down"' });
  });

  it('without one leaves the answer to the error table, and the hand-off is not used again', async () => {
    rig.gateway.play({ beforeHeaders: 'close' });
    await expect(rig.step(decode, nixl)(context())).rejects.toMatchObject({ fault: 'reset' });
    expect(sink.isStarted).toBe(false);
    expect(rig.gateway.calls).toHaveLength(1);
  });

  it('because no headers come in time is a timeout', async () => {
    rig.gateway.play({ beforeHeaders: 'hang' });
    const slow = { gatewayOptions: { headersTimeoutMs: 200 } };
    await expect(rig.step(decode, nixl, slow)(context())).rejects.toMatchObject({
      fault: 'timeout',
    });
  });

  it('after it had promised more is cut', async () => {
    rig.gateway.play({
      headers: { 'content-length': '1000' },
      chunks: ['short', { end: 'close' }],
    });
    await expect(rig.step(decode, nixl)(context())).rejects.toMatchObject({ status: 0 });
    expect(sink).toMatchObject({ status: 200, ended: 'cut' });
  });
});

describe('the parameters of decode', () => {
  it.each([
    {
      params: { kv_connector: 'kv-x' },
      message:
        'decode: kv_connector: expected one of kv-nixl, kv-shared-storage, kv-sglang, kv-none, got "kv-x"',
    },
    {
      params: { use_openai_format: true },
      message: 'decode: use_openai_format: has no meaning on decode, remove it',
    },
  ])('end the start when they are $params', ({ params, message }) => {
    expect(() => rig.step(decode, params)).toThrow(message);
  });
});
