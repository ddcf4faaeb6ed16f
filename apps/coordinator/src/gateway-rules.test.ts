import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer } from '@llm-d/testing';
import { pictureChat, TestCoordinator } from './testing.ts';

// What a real Envoy and a real endpoint picker answer (gateway-verified.md 5 to 7), and the rules that follow for a
// coordinator (section 10). Rules 1 and 9 are about deployments; worker-sim and gateway-sim test rules 5 and 6.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

const headers = { 'x-request-id': 'rule-1' };

/** The text of a picker, which must not reach a client. */
const said = (status: number, text: string, reason?: string): Answer => ({
  status,
  headers: {
    'content-type': 'text/plain',
    'x-went-into-resp-headers': 'true',
    ...(reason === undefined ? {} : { 'x-llm-d-request-dropped-reason': reason }),
  },
  text,
});
const saturated = said(
  429,
  'inference error: ResourceExhausted - no endpoints available for the given request',
  'rejected-saturated',
);
const emptyPool = said(
  503,
  'inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request',
  'rejected-no-endpoints',
);
const refused = said(
  503,
  'upstream connect error or disconnect/reset before headers. reset reason: remote connection failure',
);
const unknownProfile = said(
  429,
  'inference error: ResourceExhausted - failed to find target endpoint: failed to run any scheduler profile',
);
const pickerDown: Answer = { status: 500 };

const steps = (...conditional: object[]) => ({
  pipeline: { steps: [...conditional, ...['prefill', 'decode'].map((type) => ({ type }))] },
});
const textChat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

describe('rule 2: what the gateway answers itself is not taken for a worker', () => {
  it.each(
    (['encode', 'prefill', 'decode'] as const).flatMap((phase) => [
      { phase, name: 'no pod', answer: saturated, status: 429, code: 'GATEWAY_NO_CAPACITY' },
      { phase, name: 'empty pool', answer: emptyPool, status: 503, code: 'GATEWAY_NO_CAPACITY' },
      { phase, name: 'dead pod', answer: refused, status: 503, code: 'UPSTREAM_ERROR' },
      { phase, name: 'profile', answer: unknownProfile, status: 429, code: 'UPSTREAM_ERROR' },
      { phase, name: 'no picker', answer: pickerDown, status: 502, code: 'GATEWAY_PICKER_DOWN' },
    ]),
  )('$phase, $name: $status $code', async ({ phase, answer, status, code }) => {
    await coordinator.start();
    coordinator.play({ [phase]: answer });
    const got = await coordinator.ask(pictureChat, { headers });
    expect(got.status).toBe(status);
    expect(got.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(got.text)).toMatchObject({
      error: { code, step: phase, request_id: 'rule-1', param: null },
    });
    expect(got.text).not.toMatch(/inference error|upstream connect/);
    expect(await coordinator.summary('rule-1')).toMatchObject({ code, outcome: 'failed' });
  });

  it.each(['prefill', 'decode'] as const)(
    'a Retry-After that comes with it reaches the client: %s',
    async (phase) => {
      await coordinator.start();
      const retry = { 'retry-after': '7', 'x-should-retry': 'true' };
      coordinator.play({ [phase]: { ...saturated, headers: { ...saturated.headers, ...retry } } });
      expect((await coordinator.ask(pictureChat)).headers).toMatchObject(retry);
    },
  );

  it("a pod's own refusal at decode passes with body and headers", async () => {
    await coordinator.start();
    const own = { status: 429, json: { error: 'busy' }, headers: { 'retry-after': '3' } };
    coordinator.play({ decode: own });
    const { status, headers: got, text } = await coordinator.ask(pictureChat);
    expect({ status, text }).toEqual({ status: 429, text: '{"error":"busy"}' });
    expect(got['retry-after']).toBe('3');
  });

  it('a 412 of a pod on the decode leg is the client’s answer', async () => {
    await coordinator.start();
    coordinator.play({ decode: { status: 412, json: { error: 'pod' } } });
    expect(await coordinator.ask(pictureChat)).toMatchObject({ status: 412 });
  });
});

describe('rule 3: Prefer', () => {
  it('stands on the conditional leg alone, whatever the client sends', async () => {
    await coordinator.start(steps({ type: 'conditional-decode' }));
    await coordinator.ask(textChat, { headers: { prefer: 'respond-async, if-available; wait=1' } });
    const sent = coordinator.gateway.calls.map((call) => call.headers['prefer']);
    expect(sent).toEqual([['if-available'], undefined, undefined]);
  });
});

describe('rule 4: a failing conditional leg', () => {
  const failures = [saturated, emptyPool, refused, pickerDown];

  it.each(failures)('is final as upstream has it: $status', async (answer) => {
    await coordinator.start(steps({ type: 'conditional-decode' }));
    coordinator.play({ 'conditional-decode': answer });
    const { status } = await coordinator.ask(textChat);
    expect(status).toBe(answer.status === 500 ? 502 : answer.status);
    expect(coordinator.gateway.calls).toHaveLength(1);
  });

  it.each(failures)('is survived where that is configured: $status', async (answer) => {
    const params = { on_failure: 'continue' };
    await coordinator.start(steps({ type: 'conditional-decode', params }));
    coordinator.play({ 'conditional-decode': answer });
    expect((await coordinator.ask(textChat)).status).toBe(200);
    expect(coordinator.gateway.calls).toHaveLength(3);
  });
});

describe('rule 7: calls without a body reach a pod of any role', () => {
  it('and the coordinator makes none of its own', async () => {
    await coordinator.start();
    for (const path of ['/readyz?verbose', '/healthz', '/readyz']) {
      expect((await coordinator.ask(undefined, { path, method: 'GET' })).status).toBe(200);
    }
    expect(coordinator.gateway.calls).toEqual([]);
  });
});

describe('rule 8: gateway.timeout bounds a call', () => {
  it.each(['encode', 'prefill', 'decode'] as const)(
    'to a picker that hangs: %s ends with 504, and the gateway sees it',
    async (phase) => {
      // Long enough for the legs before it.
      await coordinator.start({ gateway: { timeout: '500ms' } });
      coordinator.play({ [phase]: { beforeHeaders: 'hang' } });
      expect((await coordinator.ask(pictureChat)).status).toBe(504);
      const [call] = coordinator.legs(phase);
      await call?.ended;
      expect(call?.aborted).toBe(true);
    },
  );

  it('but not a JSON answer whose headers came early and whose body the picker holds', async () => {
    await coordinator.start({ gateway: { timeout: '1s' } });
    const type = { 'content-type': 'application/json' };
    coordinator.play({ decode: { headers: type, chunks: [{ wait: 1_300 }, '{"late":1}'] } });
    expect(await coordinator.ask(pictureChat)).toMatchObject({ status: 200, text: '{"late":1}' });
  });
});
