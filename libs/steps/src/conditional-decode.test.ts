import { ClientGoneError } from '@llm-d/pipeline';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { conditionalDecode } from './conditional-decode.ts';
import { render } from './render.ts';
import { answerFile, Rig, testdata } from './testing.ts';

let rig: Rig;
let sink: MemorySink;
beforeEach(async () => {
  rig = await Rig.open();
  sink = new MemorySink();
});
afterEach(() => rig.close());

describe('conditional-decode', () => {
  it.each([
    { name: 'JSON', file: 'decode.chat.json' },
    { name: 'events', file: 'decode.chat.sse' },
  ])('is done when a worker answers $name', async ({ file }) => {
    rig.gateway.play(answerFile(file));
    const ctx = requestContext({ body: testdata('requests/chat.text.json'), sink });
    expect(await rig.step(conditionalDecode)(ctx)).toBe('served');
    expect(sink).toMatchObject({ status: 200, text: testdata(`answers/${file}`), ended: 'whole' });
    expect(rig.gateway.calls[0]?.path).toBe('/v1/chat/completions');
    expect(rig.gateway.calls[0]?.headers).toMatchObject({
      'epp-profile': ['decode'],
      prefer: ['if-available'],
      'content-type': ['application/json'],
    });
    expect(rig.gateway.calls[0]?.body.toString()).toBe(testdata('requests/chat.text.json'));
  });

  it('goes on when no worker holds the prompt, and the client sees nothing of it', async () => {
    rig.gateway.play({ status: 412, headers: { 'x-a': '1' }, text: 'not here' });
    const ctx = requestContext({ sink });
    const before = ctx.body;
    expect(await rig.step(conditionalDecode)(ctx)).toBe('continue');
    expect(sink.isStarted).toBe(false);
    expect(ctx.body).toBe(before);
  });

  it.each([400, 404, 429, 500, 503])('hands a %i to the client and fails', async (status) => {
    rig.gateway.play({ status, json: 'worker says no' });
    await expect(rig.step(conditionalDecode)(requestContext({ sink }))).rejects.toMatchObject({
      code: 'RESPONSE_STARTED',
      status,
    });
    expect(sink).toMatchObject({ status, text: '"worker says no"', ended: 'whole' });
  });

  it.each([
    { status: 429, outcome: 'continue' },
    { status: 500, outcome: 'continue' },
    { status: 503, outcome: 'continue' },
    { status: 400, outcome: 'fails' },
    { status: 200, outcome: 'served' },
  ])('with on_failure: continue a $status: $outcome', async ({ status, outcome }) => {
    rig.gateway.play({ status, json: 'worker says' });
    const step = rig.step(conditionalDecode, { on_failure: 'continue' });
    const run = await step(requestContext({ sink })).catch(() => 'fails');
    expect(run).toBe(outcome);
    expect(sink.isStarted).toBe(outcome !== 'continue');
  });

  it.each(['reset', 'close'] as const)(
    'fails when the gateway answers with a %s',
    async (beforeHeaders) => {
      rig.gateway.play({ beforeHeaders });
      await expect(rig.step(conditionalDecode)(requestContext({ sink }))).rejects.toMatchObject({
        name: 'TransportError',
      });
      expect(sink.isStarted).toBe(false);
    },
  );

  it('fails when nobody listens at the gateway', async () => {
    const step = rig.step(conditionalDecode);
    await rig.gateway.close();
    await expect(step(requestContext({ sink }))).rejects.toMatchObject({ fault: 'connect' });
  });

  it('takes a client that leaves for what it is, not for a hit', async () => {
    const client = new AbortController();
    rig.gateway.play({ beforeHeaders: 'hang' });
    const running = rig.step(conditionalDecode)(requestContext({ sink, signal: client.signal }));
    await rig.gateway.received(0);
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
  });

  it('sends a completions prompt as the ids that render gave', async () => {
    rig.renderService.play(answerFile('render.completions.text.json'));
    rig.gateway.play({ status: 412 });
    const ctx = requestContext({
      api: 'completions',
      body: '{"prompt":"x","stream":true,"seed":1.0}',
    });
    await rig.step(render)(ctx);
    await rig.step(conditionalDecode)(ctx);
    expect(rig.gateway.calls[0]?.body.toString()).toBe(
      '{"prompt":[785, 6722, 315, 9625, 374],"stream":true,"seed":1.0}',
    );
    expect(ctx.body.text('prompt')).toBe('x');
  });

  it('sends a prompt without ids as it is', async () => {
    rig.gateway.play({ status: 412 });
    await rig.step(conditionalDecode)(
      requestContext({ api: 'completions', body: '{"prompt":[]}' }),
    );
    expect(rig.gateway.calls[0]?.body.toString()).toBe('{"prompt":[]}');
  });

  it.each([true, false])('refuses the stale parameter use_openai_format: %s', (value) => {
    expect(() => rig.step(conditionalDecode, { use_openai_format: value })).toThrow(
      'conditional-decode: use_openai_format: has no meaning on conditional-decode, remove it',
    );
  });
});
