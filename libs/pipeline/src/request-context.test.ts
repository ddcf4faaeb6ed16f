import { JsonDocument, jsonRaw, parseJson } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { MemorySink, requestContext } from './testing.ts';
import { RequestContext } from './request-context.ts';
import { ForwardedHeaders, headerPolicy } from './forwarded-headers.ts';
import { Handoff } from './handoff.ts';
import { type RequestObserver } from './timeline.ts';
import { silentLogger } from './logger.ts';
import { TokenIds } from './token-ids.ts';

describe('RequestContext', () => {
  it.each([
    { body: '{"model":"m"}', model: 'm' },
    { body: '{"model":""}', model: '' },
    { body: '{"model":null}', model: '' },
    { body: '{"model":["m"]}', model: '' },
    { body: '{}', model: '' },
  ])('takes the model of $body', ({ body, model }) => {
    expect(requestContext({ body }).model).toBe(model);
  });

  it.each([
    { body: '{"stream":true}', isStreaming: true },
    { body: '{"stream":false}', isStreaming: false },
    { body: '{"stream":"true"}', isStreaming: false },
    { body: '{"stream":1}', isStreaming: false },
    { body: '{"stream":null}', isStreaming: false },
    { body: '{}', isStreaming: false },
  ])('streams for $body: $isStreaming', ({ body, isStreaming }) => {
    expect(requestContext({ body }).isStreaming).toBe(isStreaming);
  });

  it('keeps the count of what it has dropped', () => {
    const ctx = requestContext({ body: '{"model":"m","prompt":"p"}' });
    ctx.tokenIds = TokenIds.read(parseJson(Buffer.from('[1,2,3]')));
    ctx.media = [{ modality: 'image', hash: 'h', kwargsData: jsonRaw('tensors') }];
    ctx.dropPrompt();
    expect(ctx).toMatchObject({ model: 'm', promptTokens: 3, media: [{ modality: 'image' }] });
    expect(ctx.body.keys()).toEqual([]);
    expect(ctx.tokenIds).toBeUndefined();
    expect(ctx.media[0]?.kwargsData).toBeUndefined();
  });

  it('counts time from the arrival of the request', () => {
    expect(requestContext().elapsedMs()).toBeGreaterThanOrEqual(0);
  });
});

describe('the context of one prompt of a batch', () => {
  const heard: string[] = [];
  const observer: RequestObserver = {
    started: ({ name, index }) => heard.push(`${name} ${index} started`),
    finished: ({ name, index }) => heard.push(`${name} ${index} finished`),
  };
  const ctx = new RequestContext({
    requestId: 'id-1',
    revisionDecisionId: 'decision',
    path: '/v1/completions',
    api: 'completions',
    headers: ForwardedHeaders.from(['accept-encoding', 'gzip', 'x-a', '1'], headerPolicy()),
    body: JsonDocument.parse(Buffer.from('{"model":"m","prompt":["a","b"],"stream":true}')),
    signal: new AbortController().signal,
    sink: new MemorySink(),
    log: silentLogger,
    observers: [observer],
  });
  const own = {
    body: ctx.body.with({ prompt: 'b' }),
    signal: new AbortController().signal,
    sink: new MemorySink(),
  };
  const second = ctx.forPrompt(1, own);

  it('belongs to the same request', () => {
    expect(second).toMatchObject({
      ...{ requestId: 'id-1', revisionDecisionId: 'decision', path: '/v1/completions' },
      ...{ api: 'completions', model: 'm', isStreaming: true, promptIndex: 1 },
    });
    expect(ctx.promptIndex).toBeUndefined();
  });

  it('has a body, a signal, a sink and results of its own', () => {
    expect(second).toMatchObject(own);
    second.captured.set('x-llm-d-disagg-revision', '7');
    expect(ctx.captured.size).toBe(0);
  });

  it('asks workers for answers that can be read', () => {
    expect(second.headers.forRelay([])).toEqual(['x-a', '1']);
    expect(ctx.headers.forRelay([])).toEqual(['accept-encoding', 'gzip', 'x-a', '1']);
  });

  it('notes its steps and legs in the timeline of the request, under its position', () => {
    const started = second.begin({ name: 'decode', kind: 'leg' });
    second.finish(started);
    ctx.begin({ name: 'whole', kind: 'step' });
    second.begin({ name: 'encode', kind: 'leg', index: 5 });
    expect(ctx.timeline.map(({ name, index }) => [name, index])).toEqual([
      ['decode', 1],
      ['whole', undefined],
      ['encode', 5],
    ]);
    expect(second.timeline).toBe(ctx.timeline);
    expect(heard).toEqual([
      'decode 1 started',
      'decode 1 finished',
      'whole undefined started',
      'encode 5 started',
    ]);
  });

  it('has hand-offs of its own, and the request has those of all its prompts', () => {
    const third = ctx.forPrompt(2, own);
    const offered = { kind: 'kv', connector: 'kv-nixl' } as const;
    const [a, b] = [new Handoff(offered, () => {}), new Handoff(offered, () => {})];
    second.addHandoff(a);
    third.addHandoff(b);
    expect(second.handoffs).toEqual([a]);
    expect(third.handoffs).toEqual([b]);
    expect(ctx.handoffs).toEqual([a, b]);
  });
});
