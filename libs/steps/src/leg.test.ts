import { JsonRaw } from '@llm-d/json-document';
import { type RequestContext } from '@llm-d/pipeline';
import { MemoryLog, requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { captureHeaders, type LegAnswer, ownHeaders, readLeg } from './leg.ts';
import { Rig } from './testing.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
  rig.gateway.play({ json: {} });
});
afterEach(() => rig.close());

function send(
  ctx: RequestContext,
  overrides: Parameters<Rig['dependencies']>[0] = {},
  index?: number,
): Promise<LegAnswer> {
  const dependencies = rig.dependencies(overrides);
  return readLeg(ctx, dependencies, {
    name: index === undefined ? 'prefill' : `encode[${index}]`,
    step: index === undefined ? 'prefill' : 'encode',
    ...(index === undefined ? {} : { index }),
    client: dependencies.gateway,
    path: '/v1/completions',
    body: new JsonRaw([Buffer.from('{"a":1.0}')]),
    phase: 'prefill',
  });
}

describe('the headers of a leg', () => {
  it('are those of the client, then its own: captured ones, decision id, type, request id and phase', async () => {
    const ctx = requestContext({
      headers: [
        'Authorization',
        'Bearer t',
        'X-A',
        '1',
        'x-a',
        '2',
        'Prefer',
        'if-available',
        'EPP-Profile',
        'encode',
      ],
    });
    ctx.captured.set('x-llm-d-disagg-revision', '7');
    await send(ctx);
    const { headers, rawHeaders } = rig.gateway.calls[0] ?? {};
    expect(headers).toMatchObject({
      authorization: ['Bearer t'],
      'x-a': ['1', '2'],
      'x-llm-d-disagg-revision': ['7'],
      'x-llm-d-revision-decision-id': [ctx.revisionDecisionId],
      'content-type': ['application/json'],
      'x-request-id': ['test-1'],
      'epp-profile': ['prefill'],
    });
    expect(headers?.['prefer']).toBeUndefined();
    expect(rawHeaders).toContain('EPP-Profile');
  });

  it('replace an id of the client that is not valid', async () => {
    await send(
      requestContext({
        headers: ['x-request-id', 'a b', 'x-llm-d-revision-decision-id', 'mine'],
        requestId: 'ours',
      }),
    );
    expect(rig.gateway.calls[0]?.headers).toMatchObject({ 'x-request-id': ['ours'] });
    expect(rig.gateway.calls[0]?.headers['x-llm-d-revision-decision-id']).toHaveLength(1);
  });

  it('may name the phase otherwise', () => {
    const dependencies = rig.dependencies();
    const wire = { ...dependencies.wire, phaseHeader: 'x-llm-d-epp-profile' };
    const headers = ownHeaders(requestContext(), { ...dependencies, wire }, 'encode', 'encode-0');
    expect(headers.slice(-2)).toEqual(['x-llm-d-epp-profile', 'encode']);
  });

  it('may give each leg an id of its own, but not the calls beside the gateway', () => {
    const dependencies = rig.dependencies();
    const unique = {
      ...dependencies,
      wire: { ...dependencies.wire, legRequestId: 'unique' as const },
    };
    const idOf = (phase: 'encode' | undefined): string | undefined => {
      const headers = ownHeaders(requestContext(), unique, phase, 'encode-1');
      return headers[headers.indexOf('x-request-id') + 1];
    };
    expect(idOf('encode')).toBe('test-1-encode-1');
    expect(idOf(undefined)).toBe('test-1');
  });
});

describe('a leg that is read', () => {
  it('gives its JSON value and headers and stands in the timeline', async () => {
    rig.gateway.play({ headers: { 'x-b': '1' }, text: ' {"n":9007199254740993} ' });
    const ctx = requestContext();
    const { value, headers } = await send(ctx);
    expect(Buffer.from(value.bytes).toString()).toBe('{"n":9007199254740993}');
    expect(headers['x-b']).toBe('1');
    expect(ctx.timeline).toEqual([
      {
        name: 'prefill',
        kind: 'leg',
        phase: 'prefill',
        startMs: expect.any(Number),
        endMs: expect.any(Number),
        headersMs: expect.any(Number),
        status: 200,
        requestBytes: 9,
        responseBytes: 24,
      },
    ]);
  });

  it('stands in the timeline with its index and without a status when no answer came', async () => {
    rig.gateway.play({ beforeHeaders: 'reset' });
    const ctx = requestContext();
    await expect(send(ctx, {}, 1)).rejects.toMatchObject({ fault: 'reset' });
    expect(ctx.timeline).toMatchObject([{ name: 'encode', index: 1, endMs: expect.any(Number) }]);
    expect(ctx.timeline[0]?.status).toBeUndefined();
  });

  it.each([
    { status: 429, passed: ['retry-after', '7', 'x-should-retry', 'true'] },
    { status: 503, passed: ['retry-after', '7', 'x-should-retry', 'true'] },
    { status: 500, passed: [] },
    { status: 404, passed: [] },
  ])('that got $status passes $passed on', async ({ status, passed }) => {
    rig.gateway.play({
      status,
      headers: { 'retry-after': '7', 'x-should-retry': 'true', 'x-c': '1' },
      text: 'worker',
    });
    await expect(send(requestContext(), {}, 1)).rejects.toMatchObject({
      message: `encode[1]: upstream returned HTTP ${status}`,
      headers: passed,
    });
  });

  const refusal = {
    error: {
      message: 'temperature must be non-negative',
      type: 'BadRequestError',
      param: 'temperature',
      code: 400,
    },
  };
  it.each([
    { upstreamErrors: 'hide', relayed: undefined },
    {
      upstreamErrors: 'relay',
      relayed: {
        message: 'temperature must be non-negative',
        type: 'BadRequestError',
        param: 'temperature',
      },
    },
  ] as const)(
    'that is refused tells what the setting $upstreamErrors allows',
    async ({ upstreamErrors, relayed }) => {
      rig.gateway.play({ status: 400, json: refusal });
      const error = await send(requestContext(), { upstreamErrors }).catch(
        (caught: unknown) => caught,
      );
      expect(error).toMatchObject({ upstreamStatus: 400 });
      expect((error as { relayed: unknown }).relayed).toEqual(relayed);
    },
  );

  // vllm-project/vllm#10234: -inf as a bare word in logprobs.
  it.each(['NaN', '{"a":-Infinity}', '{', '', 'data: {}\n\n'])(
    'that got %j fails',
    async (text) => {
      rig.gateway.play({ text });
      await expect(send(requestContext())).rejects.toMatchObject({
        code: 'UPSTREAM_ANSWER_INVALID',
        message: 'prefill: the answer is not valid JSON',
      });
    },
  );
});

describe('a leg on a connection that the gateway was closing', () => {
  it.each([undefined, 'encode', 'prefill', 'decode'] as const)(
    'is not sent again when its phase is %s and the peer may have got the whole of it (C40)',
    async (phase) => {
      const log = new MemoryLog();
      const dependencies = rig.dependencies();
      const leg = {
        name: 'leg',
        step: 'leg',
        client: dependencies.gateway,
        path: '/v1/completions',
        body: new JsonRaw([Buffer.from('{}')]),
        ...(phase ? { phase } : {}),
      };
      await readLeg(requestContext(), dependencies, leg);
      await new Promise((resolve) => setImmediate(resolve));
      rig.gateway.play([{ beforeHeaders: 'close' }, { json: {} }]);
      const ctx = requestContext({ log });
      await expect(readLeg(ctx, dependencies, leg)).rejects.toMatchObject({ fault: 'reset' });
      expect(rig.gateway.calls).toHaveLength(2);
      expect(ctx.timeline[0]?.retries).toBeUndefined();
      expect(log.lines).toEqual([]);
    },
  );
});

// gateway-verified.md 5 and 10, rule 2.
describe('an answer of the gateway in the place of a pod', () => {
  const dropped = (reason: string) => ({ 'x-llm-d-request-dropped-reason': reason });
  it.each([
    {
      answer: { status: 429, headers: dropped('rejected-saturated'), text: 'inference error' },
      code: 'GATEWAY_NO_CAPACITY',
    },
    {
      answer: { status: 503, headers: dropped('rejected-no-endpoints'), text: 'inference error' },
      code: 'GATEWAY_NO_CAPACITY',
    },
    { answer: { status: 500 }, code: 'GATEWAY_PICKER_DOWN' },
    { answer: { status: 503 }, code: 'GATEWAY_PICKER_DOWN' },
    { answer: { status: 500, text: 'worker' }, code: 'UPSTREAM_ERROR' },
    { answer: { status: 503, text: 'upstream connect error' }, code: 'UPSTREAM_ERROR' },
    { answer: { status: 429, json: { error: {} } }, code: 'UPSTREAM_ERROR' },
    { answer: { status: 400 }, code: 'UPSTREAM_ERROR' },
  ])('has a code of its own: $answer is $code', async ({ answer, code }) => {
    rig.gateway.play(answer);
    await expect(send(requestContext())).rejects.toMatchObject({
      code,
      upstreamStatus: answer.status,
    });
  });
});

describe('headers that later legs carry', () => {
  const answers = (...values: (string | string[] | undefined)[]): LegAnswer[] =>
    values.map((value) => ({ headers: { 'x-r': value, 'x-other': '1' } }) as unknown as LegAnswer);
  it.each([
    { name: 'the only value', given: answers('a'), kept: 'a' },
    { name: 'the most frequent value', given: answers('a', 'b', 'b'), kept: 'b' },
    { name: 'the first of equally frequent ones', given: answers('b', 'a'), kept: 'b' },
    {
      name: 'the first value of a repeated header',
      given: answers(['b', 'a'], ['b', 'a']),
      kept: 'b',
    },
    { name: 'no empty value', given: answers('', '', 'a'), kept: 'a' },
    {
      name: 'what was there, when no answer has it',
      given: answers(undefined, ''),
      kept: 'before',
    },
    { name: 'what was there, when there are no answers', given: [], kept: 'before' },
  ])('have $name', ({ given, kept }) => {
    const ctx = requestContext();
    ctx.captured.set('x-r', 'before');
    captureHeaders(ctx, rig.dependencies({ forwardResponseHeaders: ['x-r'] }), given);
    expect([...ctx.captured]).toEqual([['x-r', kept]]);
  });

  it('are none unless they are configured', () => {
    const ctx = requestContext();
    captureHeaders(ctx, rig.dependencies(), answers('a'));
    expect(ctx.captured.size).toBe(0);
  });
});
