import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { completion, errorOf, QueueRig, response } from './testing.ts';

let rig: QueueRig;
beforeAll(async () => {
  // Shorter than the waits of these tests: it does not hold for them.
  rig = await QueueRig.open({}, { server: { write_timeout: '400ms', stream_keepalive: '200ms' } });
});
afterAll(() => rig.close());

describe('wait', () => {
  it('C12 gives a result that is there, once', async () => {
    const id = await rig.stored(response(200, '{"n":1.0}'));
    const { status, text, headers } = await rig.post('wait', { id });
    expect([status, text, headers['x-request-id']]).toEqual([200, '{"n":1.0}', id]);
    await expectGone(id);
  });

  it('C44 gives a result well under the 2 s of the backup once it is stored', async () => {
    const id = rig.newId();
    const held = rig.post('wait', { id });
    const ref = await rig.begin(id);
    await rig.untilHeld(1);
    // The usual limit of an answer passes meanwhile.
    await sleep(500);
    const startedAt = performance.now();
    await rig.broker.dispatch.finish(ref, 'token', response(200));
    expect((await held).status).toBe(200);
    expect(performance.now() - startedAt).toBeLessThan(500);
    await expectGone(id);
    expect(await rig.sample('llm_d_async_broker_wakeups_total{source="pubsub"}')).toBe(1);
    expect(await rig.sample('llm_d_async_broker_wait_hold_seconds_count')).toBeGreaterThan(0);
  });

  it.each([
    { status: 404, counted: 'upstream_4xx' },
    { status: 500, counted: 'upstream_5xx' },
  ])('C13 mirrors a stored $status, counted as $counted', async ({ status, counted }) => {
    const before = await rig.errors(counted);
    const id = await rig.stored(response(status, '{"error":{"message":"no"}}'));
    const answer = await rig.post('wait', { id });
    expect([answer.status, answer.text]).toEqual([status, '{"error":{"message":"no"}}']);
    await expectGone(id);
    expect(await rig.errors(counted)).toBe(before + 1);
  });

  it('C14 is 502 for a stored status 42, counted as upstream_5xx', async () => {
    const before = await rig.errors('upstream_5xx');
    const answer = await rig.post('wait', { id: await rig.stored(response(42)) });
    expect(answer.status).toBe(502);
    expect(errorOf(answer)).toMatchObject({ code: 'MALFORMED_RESULT', type: 'api_error' });
    expect(await rig.errors('upstream_5xx')).toBe(before + 1);
  });

  it.each([
    { code: 'GATE_DROPPED', status: 429, counted: 'upstream_4xx' },
    { code: 'DEADLINE_EXCEEDED', status: 504, counted: 'upstream_5xx' },
    { code: 'INVALID_REQUEST', status: 400, counted: 'upstream_4xx' },
    { code: 'CANCELLED', status: 499, counted: 'upstream_4xx' },
    { code: 'INFERENCE_ERROR', status: 502, counted: 'upstream_5xx' },
  ] as const)('C15 is $status for $code, counted as $counted', async (row) => {
    const { code, status, counted } = row;
    const id = rig.newId();
    const before = await rig.errors(counted);
    const held = rig.post('wait', { id });
    await rig.finish(id, { kind: 'error', code, message: 'why' });
    const answer = await held;
    expect(answer.status).toBe(status);
    expect(errorOf(answer)).toMatchObject({ code });
    expect(answer.headers['x-request-id']).toBe(id);
    expect(await rig.errors(counted)).toBe(before + 1);
    // It was no delivery of a result: who asks again learns the same.
    expect((await rig.get(id)).status).toBe(status);
  });

  it('C17 is 504 at the deadline, counted as upstream_5xx', async () => {
    const [id, before] = [rig.newId(), await rig.errors('upstream_5xx')];
    const startedAt = performance.now();
    const headers = { 'x-request-timeout-seconds': '1' };
    const answer = await rig.post('wait', { id, headers });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(990);
    expect(answer.status).toBe(504);
    expect(errorOf(answer)).toMatchObject({ code: 'DEADLINE_EXCEEDED', type: 'timeout_error' });
    expect(await rig.errors('upstream_5xx')).toBe(before + 1);
  });

  it.each([
    { name: 'C41 a stored 500', status: 500 },
    { name: 'C42 a stored 200', status: 200 },
  ])('gives $name without running anything again', async ({ status }) => {
    const id = await rig.stored(response(status));
    const before = await rig.waiting();
    expect((await rig.post('wait', { id })).status).toBe(status);
    expect(await rig.waiting()).toBe(before);
  });

  it('attaches to a request that is queued or runs, with a deadline of its own (1.8)', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id });
    const short = await rig.post('wait', { id, headers: { 'x-request-timeout-seconds': '1' } });
    expect(short.status).toBe(504);
    expect((await rig.get(id)).status).toBe(202);
    const held = rig.post('wait', { id });
    await rig.finish(id, response(200));
    expect((await held).status).toBe(200);
  });

  it('C43 wakes both waiters of one id, both get the result (hazard b), and one that left silences nobody', async () => {
    const id = rig.newId();
    const waits = [rig.post('wait', { id }), rig.post('wait', { id })];
    const leaving = await rig.hold(id);
    await rig.untilHeld(3);
    leaving.destroy();
    await rig.untilHeld(2);
    await rig.finish(id, response(200, 'both'));
    for (const { status, text } of await Promise.all(waits)) {
      expect([status, text]).toEqual([200, 'both']);
    }
  });

  it('is cancelled when its client leaves: GET is 499 (1.9)', async () => {
    const [id, before] = [rig.newId(), await rig.errors('cancelled')];
    const call = await rig.hold(id);
    await rig.untilHeld(1);
    call.destroy();
    await rig.untilHeld(0);
    while ((await rig.get(id)).status === 202) await sleep(5);
    const answer = await rig.get(id);
    expect(answer.status).toBe(499);
    expect(errorOf(answer)).toMatchObject({ code: 'CANCELLED', type: 'cancelled' });
    while ((await rig.errors('cancelled')) === before) await sleep(5);
  });

  it('is revived when it is sent again after that (1.8)', async () => {
    const [id, before] = [rig.newId(), await rig.waiting()];
    const call = await rig.hold(id);
    await rig.untilHeld(1);
    call.destroy();
    await rig.untilHeld(0);
    while ((await rig.get(id)).status === 202) await sleep(5);
    expect((await rig.post('enqueue', { id })).status).toBe(202);
    expect((await rig.get(id)).status).toBe(202);
    expect(await rig.waiting()).toBe(before + 1);
    await rig.finish(id, response(200));
    expect((await rig.get(id)).status).toBe(200);
  });

  it('that attached to an enqueue does not cancel it by leaving (hazard c)', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id });
    const call = await rig.hold(id);
    await rig.untilHeld(1);
    call.destroy();
    await rig.untilHeld(0);
    await rig.finish(id, response(200));
    expect((await rig.get(id)).status).toBe(200);
  });

  it('that leaves as one of two does not cancel', async () => {
    const id = rig.newId();
    const staying = rig.post('wait', { id });
    const leaving = await rig.hold(id);
    await rig.untilHeld(2);
    leaving.destroy();
    await rig.untilHeld(1);
    await rig.finish(id, response(200));
    expect((await staying).status).toBe(200);
  });

  it('ends with 404 when the request is deleted meanwhile', async () => {
    const id = rig.newId();
    const held = rig.post('wait', { id });
    await rig.untilHeld(1);
    await rig.delete(id);
    expect((await held).status).toBe(404);
  });

  it('gives a stream whole, after the comments that kept its connection alive', async () => {
    const id = rig.newId();
    const held = rig.post('wait', { id, body: { ...completion, stream: true } });
    await rig.untilHeld(1);
    await sleep(300);
    await rig.finish(id, {
      ...{ kind: 'response', status: 200, contentType: 'text/event-stream' },
      body: Buffer.from('data: {"a":1}\n\ndata: [DONE]\n\n'),
    });
    const { status, text } = await held;
    expect(status).toBe(200);
    expect(text).toMatch(/^(?:: keep-alive\n\n)+data: \{"a":1\}\n\ndata: \[DONE\]\n\n$/);
  });

  it.each([
    {
      name: 'an answer that is no stream',
      outcome: response(400, '{"error":\n{}}'),
      told: /data: \{"error":\ndata: \{\}\}\n\n$/,
    },
    {
      name: 'an end without an answer',
      outcome: { kind: 'error', code: 'INFERENCE_ERROR', message: 'why' } as const,
      told: /data: \{"error":\{.*"code":"INFERENCE_ERROR".*\}\}\n\n$/,
    },
  ])('tells $name as an event once comments have begun a stream', async ({ outcome, told }) => {
    const id = rig.newId();
    const held = rig.post('wait', { id, body: { ...completion, stream: true } });
    await rig.untilHeld(1);
    await sleep(300);
    await rig.finish(id, outcome);
    const { text } = await held;
    expect(text).toMatch(/^: keep-alive\n\n/);
    expect(text).toMatch(told);
  });
});

describe('a wait with a cap', () => {
  let capped: QueueRig;
  beforeAll(async () => {
    capped = await QueueRig.open({ wait_cap_seconds: 1, timeouts: { wait: { max_seconds: 2 } } });
  });
  afterAll(() => capped.close());

  it('C16 is 202 after it, and stays fetchable', async () => {
    const [id, startedAt] = [capped.newId(), performance.now()];
    const { status, text } = await capped.post('wait', { id });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(990);
    expect([status, text]).toEqual([202, `{"id":"${id}","status":"pending"}`]);
    await capped.finish(id, response(200));
    expect((await capped.get(id)).status).toBe(200);
  });

  it('is 504 when its deadline comes first', async () => {
    const headers = { 'x-request-timeout-seconds': '1' };
    const answers = await Promise.all([capped.post('wait', { headers }), capped.post('wait')]);
    // Of two equal limits the deadline is the one that counts.
    expect(answers.map(({ status }) => status)).toEqual([504, 202]);
  });

  it('is 202 at once when the process is about to end (4.13)', async () => {
    const id = capped.newId();
    const held = capped.post('wait', { id });
    await capped.untilHeld(1);
    const [answer] = await Promise.all([held, capped.coordinator.stop()]);
    expect(answer.status).toBe(202);
    expect((await capped.broker.fetch({ tenant: 'default', id })).kind).toBe('pending');
  });
});

/** What is delivered is noted after the client has it. */
async function expectGone(id: string): Promise<void> {
  while ((await rig.get(id)).status !== 404) await sleep(5);
}
