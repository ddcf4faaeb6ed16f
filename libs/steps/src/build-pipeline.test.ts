import { type Api } from '@llm-d/gateway';
import { ClientGoneError, defineStep } from '@llm-d/pipeline';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, type RecordedCall } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { builtInSteps } from './build-pipeline.ts';
import { answerFile, Rig, testdata } from './testing.ts';

let rig: Rig;
let sink: MemorySink;
beforeEach(async () => {
  rig = await Rig.open();
  sink = new MemorySink();
});
afterEach(() => rig.close());

const steps = (...types: string[]) => types.map((type) => ({ type }));
const all = steps(
  'replace-media-urls',
  'render',
  'conditional-decode',
  'encode',
  'prefill',
  'decode',
);
const phasesOf = (): (string | undefined)[] =>
  rig.gateway.calls.map(({ headers }) =>
    headers['prefer'] ? 'probe' : headers['epp-profile']?.[0],
  );

/** Workers that answer as they should; the probe finds nothing. */
function standard({ headers }: RecordedCall): Answer {
  if (headers['prefer']) return { status: 412 };
  switch (headers['epp-profile']?.[0]) {
    case 'encode':
      return answerFile('encode.0.json');
    case 'prefill':
      return answerFile('prefill.kv-nixl.json');
    default:
      return answerFile('decode.chat.json');
  }
}

describe('a pipeline', () => {
  it('knows the steps that come with the coordinator', () => {
    const types = [{ type: 'async-broker' }, ...all, { type: 'prefill-decode' }].map(
      ({ type }) => type,
    );
    // Others may be added: docs/adding-a-step.md has the commands.
    expect(builtInSteps.map(({ type }) => type)).toEqual(expect.arrayContaining(types));
  });

  it('runs encode, prefill and decode for an image', async () => {
    rig.gateway.play(standard);
    rig.renderService.play(answerFile('render.chat.one-image.json'));
    const ctx = requestContext({ body: testdata('requests/chat.one-image.json'), sink });
    await rig.pipeline(all).run(ctx);
    expect(phasesOf()).toEqual(['probe', 'encode', 'prefill', 'decode']);
    expect(new Set(rig.gateway.calls.map(({ path }) => path))).toEqual(
      new Set(['/v1/chat/completions']),
    );
    expect(sink).toMatchObject({ status: 200, ended: 'whole' });
    expect(
      ctx.timeline.filter(({ kind }) => kind === 'leg').map(({ name, status }) => [name, status]),
    ).toEqual([
      ['render', 200],
      ['conditional-decode', 412],
      ['encode', 200],
      ['prefill', 200],
      ['decode', 200],
    ]);
  });

  it('runs no encode for a text', async () => {
    rig.gateway.play(standard);
    rig.renderService.play(answerFile('render.chat.text.json'));
    await rig
      .pipeline(all)
      .run(requestContext({ body: testdata('requests/chat.text.json'), sink }));
    expect(phasesOf()).toEqual(['probe', 'prefill', 'decode']);
  });

  it('ends with the probe when a worker holds the prompt', async () => {
    rig.gateway.play(answerFile('decode.chat.sse'));
    rig.renderService.play(answerFile('render.chat.text.json'));
    await rig
      .pipeline(all)
      .run(requestContext({ body: testdata('requests/chat.text.json'), sink }));
    expect(phasesOf()).toEqual(['probe']);
    expect(sink.text).toContain('[DONE]');
  });

  // llm-d/llm-d-router#2000: a prefill that streams answers no JSON.
  it.each([true, false])(
    'keeps the client’s limits and streaming for decode alone (OpenAI format: %s)',
    async (usesOpenAi) => {
      rig.gateway.play(standard);
      rig.renderService.play(answerFile('render.chat.one-image.json'));
      const limits =
        '"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"min_tokens":3,';
      const body = testdata('requests/chat.one-image.json')
        .replace(/"stream": true[^}]*\}/, '"x": 1')
        .replace('{', `{${limits}`);
      const format = { use_openai_format: usesOpenAi };
      const pipeline = rig.pipeline([
        ...all.slice(0, 3),
        { type: 'encode', params: format },
        { type: 'prefill', params: format },
        { type: 'decode' },
      ]);
      await pipeline.run(requestContext({ body, sink }));
      for (const leg of [...rig.bodies('encode'), ...rig.bodies('prefill')]) {
        expect(leg).toMatchObject({ stream: false });
        expect(JSON.stringify(leg)).not.toMatch(/stream_options|min_tokens/);
        expect(leg['max_tokens'] ?? leg['sampling_params']).toEqual(
          usesOpenAi ? 1 : { max_tokens: 1 },
        );
      }
      const decodes = rig.legs('decode').map((call) => call.body.toString());
      expect(decodes).toHaveLength(2);
      for (const text of decodes) expect(text).toContain(limits);
    },
  );

  it('says which step failed', async () => {
    rig.renderService.play({ status: 422 });
    await expect(rig.pipeline(all).run(requestContext({ sink }))).rejects.toMatchObject({
      step: 'render',
      status: 422,
    });
    expect(rig.gateway.calls).toEqual([]);
  });

  it('sends no further leg when the client leaves in prefill', async () => {
    const client = new AbortController();
    rig.gateway.play({ beforeHeaders: 'hang' });
    const running = rig
      .pipeline(steps('prefill', 'decode'))
      .run(requestContext({ sink, signal: client.signal }));
    const call = await rig.gateway.received(0);
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE', step: 'prefill' });
    await call.ended;
    expect(call.aborted).toBe(true);
    expect(phasesOf()).toEqual(['prefill']);
    expect(sink.isStarted).toBe(false);
  });

  it('sends no further leg when the client leaves between prefill and decode', async () => {
    const client = new AbortController();
    rig.gateway.play({ json: {} });
    const leaving = defineStep({
      type: 'leaving',
      params: z.strictObject({}),
      create: () => () => {
        client.abort(new ClientGoneError());
        return Promise.resolve('continue');
      },
    });
    const pipeline = rig.pipeline(steps('prefill', 'leaving', 'decode'), {
      definitions: [leaving],
    });
    await expect(
      pipeline.run(requestContext({ sink, signal: client.signal })),
    ).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    expect(phasesOf()).toEqual(['prefill']);
  });

  it('serves many requests at once without mixing them up', async () => {
    rig.gateway.play((call) => {
      const { marker } = call.json() as { marker: number };
      return { json: { marker, kv_transfer_params: { marker } } };
    });
    const pipeline = rig.pipeline(steps('prefill', 'decode'));
    const sinks = await Promise.all(
      Array.from({ length: 50 }, async (_, marker) => {
        const own = new MemorySink();
        await pipeline.run(
          requestContext({ body: { marker }, sink: own, requestId: `r-${marker}` }),
        );
        return own;
      }),
    );
    sinks.forEach((own, marker) => expect(JSON.parse(own.text)).toMatchObject({ marker }));
    for (const { headers, body } of rig.gateway.calls) {
      const { marker } = JSON.parse(body.toString()) as { marker: number };
      expect(headers['x-request-id']).toEqual([`r-${marker}`]);
    }
  });
});

describe('transfer params of a client', () => {
  const evil = '{"do_remote_prefill":true,"remote_host":"evil"}';
  const body = `{"model":"m","prompt":[1],"token_ids":[1],"messages":[],"kv_transfer_params":${evil},"ec_transfer_params":${evil},"bootstrap_host":"evil","sampling_params":{"extra_args":{"kv_transfer_params":${evil}}}}`;

  it.each<[Api]>([['chat'], ['completions'], ['generate'], ['responses']])(
    'reach no leg of %s',
    async (api) => {
      rig.gateway.play(standard);
      rig.renderService.play({ json: { token_ids: [1] } });
      await rig.pipeline(all).run(requestContext({ api, body, sink }));
      const calls = [...rig.gateway.calls, ...rig.renderService.calls];
      expect(phasesOf()).toEqual(['probe', 'prefill', 'decode']);
      for (const call of calls) expect(call.body.toString()).not.toContain('evil');
    },
  );

  it('pass where that is configured', async () => {
    rig.gateway.play({ json: {} });
    const pipeline = rig.pipeline(steps('conditional-decode', 'decode'), {
      trustsClientTransferParams: true,
    });
    await pipeline.run(requestContext({ body, sink }));
    expect(rig.gateway.calls[0]?.body.toString()).toBe(body);
  });
});

describe('building a pipeline', () => {
  it.each([
    {
      name: 'no steps',
      given: [],
      message: 'expected a step that answers the client, such as decode',
    },
    {
      name: 'no step that answers',
      given: steps('prefill'),
      message: 'expected a step that answers the client',
    },
    {
      name: 'an unknown step',
      given: steps('decoder', 'decode'),
      message: 'unknown step type "decoder", known are: async-broker, replace-media-urls',
    },
    {
      name: 'tokens-in without render',
      given: [{ type: 'prefill', params: { use_openai_format: false } }, { type: 'decode' }],
      message: 'prefill has use_openai_format: false and needs a render step before it',
    },
    {
      name: 'tokens-in before render',
      given: [
        { type: 'encode', params: { use_openai_format: false } },
        ...steps('render', 'decode'),
      ],
      message: 'encode has use_openai_format: false and needs a render step before it',
    },
    {
      name: 'replace-media-urls behind render',
      given: steps('render', 'replace-media-urls', 'decode'),
      message: 'pipeline.steps: expected replace-media-urls before render',
    },
  ])('fails with $name', ({ given, message }) => {
    expect(() => rig.pipeline(given)).toThrow(message);
  });

  it('takes steps of other packages', async () => {
    const guard = defineStep({
      type: 'guard',
      params: z.strictObject({ status: z.int() }),
      isTerminal: true,
      create:
        ({ status }) =>
        (ctx) => {
          ctx.sink.start(status, []);
          ctx.sink.end();
          return Promise.resolve('served');
        },
    });
    const pipeline = rig.pipeline([{ type: 'guard', params: { status: 204 } }], {
      definitions: [guard],
    });
    await pipeline.run(requestContext({ sink }));
    expect(sink.status).toBe(204);
  });

  it.each([
    { name: 'first', types: ['front', 'decode'], message: undefined },
    { name: 'second', types: ['encode', 'front', 'decode'], message: 'front as the first step' },
    { name: 'again', types: ['front', 'encode', 'front', 'decode'], message: 'front as the first' },
  ])('has a step that sees requests as they came $name, or fails', ({ types, message }) => {
    const front = defineStep({
      type: 'front',
      isEntrance: true,
      params: z.strictObject({}),
      create: () => () => Promise.resolve('continue'),
    });
    const build = () => rig.pipeline(steps(...types), { definitions: [front] });
    if (message === undefined) expect(build).not.toThrow();
    else expect(build).toThrow(message);
  });

  it('refuses a step of another package under a name that is taken', () => {
    const again = defineStep({
      type: 'decode',
      params: z.strictObject({}),
      create: () => () => Promise.resolve('served'),
    });
    expect(() => rig.pipeline(steps('decode'), { definitions: [again] })).toThrow('type "decode"');
  });

  it('tells of parameters that a step does not know', () => {
    const unknown: unknown[] = [];
    rig.pipeline([{ type: 'prefill', params: { max_paralel: 1 } }, { type: 'decode' }], {
      onUnknownParam: (step, key) => unknown.push([step, key]),
    });
    expect(unknown).toEqual([['prefill', 'max_paralel']]);
  });

  it.each([
    { format: true, isAsked: false },
    { format: false, isAsked: true },
  ])(
    'lets render know whether legs carry tensors (OpenAI format: $format)',
    async ({ format, isAsked }) => {
      rig.gateway.play(standard);
      rig.renderService.play(answerFile('render.chat.text.json'));
      const pipeline = rig.pipeline([
        { type: 'render', params: { mm_payload: 'auto' } },
        { type: 'prefill', params: { use_openai_format: format } },
        { type: 'decode' },
      ]);
      await pipeline.run(requestContext({ sink }));
      expect(rig.renderService.calls[0]?.body.includes('mm_payload')).toBe(!isAsked);
    },
  );

  it('does not change the parameters that it is given', () => {
    const params = Object.freeze({ kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' });
    rig.pipeline([
      { type: 'prefill', params },
      { type: 'decode', params },
    ]);
    expect(params).toEqual({ kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' });
  });

  it('ends with all connections closed', async () => {
    rig.gateway.play(standard);
    rig.renderService.play(answerFile('render.chat.text.json'));
    const pipeline = rig.pipeline(all);
    await pipeline.run(requestContext({ body: testdata('requests/chat.text.json'), sink }));
    await pipeline.close();
    while (rig.gateway.openConnectionCount + rig.renderService.openConnectionCount > 0) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await expect(pipeline.run(requestContext({ sink: new MemorySink() }))).rejects.toThrow();
  });
});
