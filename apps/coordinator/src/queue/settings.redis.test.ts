import { describe, expect, it } from '@jest/globals';
import { TestCoordinator } from '../testing.ts';
import { completion, errorOf, QueueRig, response } from './testing.ts';

describe('the settings of async-broker', () => {
  it.each([
    { grace: 5, isKept: true },
    { grace: 0, isKept: false },
  ])('C36 keep a fetched result for $grace s', async ({ grace, isKept }) => {
    await using rig = await QueueRig.open({ fetch_grace_seconds: grace });
    const id = await rig.stored(response(200));
    expect((await rig.get(id)).status).toBe(200);
    const key = `ab:{${Buffer.from('default').toString('base64url')}~${id}}:rec`;
    const left = async (): Promise<number> =>
      Number((await rig.redis.command('PTTL', key)).replace(':', ''));
    // What was delivered is noted after the client has it.
    while ((await left()) > 10_000) await new Promise(setImmediate);
    if (isKept) {
      expect(await left()).toBeGreaterThan(0);
      expect(await left()).toBeLessThanOrEqual(5_000);
      expect((await rig.get(id)).status).toBe(200);
    } else {
      expect((await rig.get(id)).status).toBe(404);
    }
  });

  it('C19 C20 clamp deadlines', async () => {
    await using rig = await QueueRig.open({ timeouts: { enqueue: { max_seconds: 300 } } });
    const id = rig.newId();
    await rig.post('enqueue', { id, headers: { 'x-request-timeout-seconds': '1000000' } });
    const { remainingMs } = await rig.begin(id);
    expect(remainingMs).toBeGreaterThan(295_000);
    expect(remainingMs).toBeLessThanOrEqual(300_000);
  });

  it('C7 refuse streams where queued_streams says so, but for passthrough', async () => {
    await using rig = await QueueRig.open({ queued_streams: 'refuse' });
    const body = { ...completion, stream: true };
    for (const mode of ['enqueue', 'wait']) {
      const answer = await rig.post(mode, { body });
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toMatchObject({ code: 'INVALID_REQUEST', param: 'stream' });
    }
    expect((await rig.post('passthrough', { body })).status).toBe(200);
  });

  it('send requests to the queues of their routes', async () => {
    await using rig = await QueueRig.open({
      routes: [{ model: 'm', tenant: 'vip', queue: 'vip', tier: 'interactive' }],
    });
    const id = rig.newId();
    await rig.post('enqueue', { id, headers: { 'x-team': 'vip' } });
    expect(await rig.begin(id, 'vip')).toMatchObject({ lane: 'vip', tier: 'interactive' });
  });

  it('limit the backlog of a tenant and of a queue (4.9)', async () => {
    await using rig = await QueueRig.open({ max_tenant_backlog: 1, max_lane_backlog: 2 });
    await rig.post('enqueue', { headers: { 'x-team': 'a' } });
    const second = await rig.post('enqueue', { headers: { 'x-team': 'a' } });
    expect(second.status).toBe(429);
    expect(errorOf(second)).toMatchObject({
      ...{ code: 'TENANT_BACKLOG_FULL', type: 'rate_limit_error' },
    });
    expect(Number(second.headers['retry-after'])).toBeGreaterThan(0);
    await rig.post('enqueue', { headers: { 'x-team': 'b' } });
    expect(errorOf(await rig.post('enqueue', { headers: { 'x-team': 'c' } }))['code']).toBe(
      'BACKLOG_FULL',
    );
    const refused = 'llm_d_async_broker_admission_rejected_total{reason="lane-backlog"}';
    expect(await rig.sample(refused)).toBe(1);
  });

  it.each([
    { overflow: 'refuse', status: 429 },
    { overflow: 'pending', status: 202 },
  ])('answer $status to a wait too many under wait_overflow: $overflow', async (row) => {
    await using rig = await QueueRig.open({ max_held_waits: 1, wait_overflow: row.overflow });
    const call = await rig.hold(rig.newId());
    await rig.untilHeld(1);
    const answer = await rig.post('wait');
    expect(answer.status).toBe(row.status);
    if (row.status === 429) expect(errorOf(answer)['code']).toBe('WAITS_FULL');
    call.destroy();
    await rig.untilHeld(0);
  });

  it('let a held answer take neither a place nor memory of those that are served', async () => {
    await using rig = await QueueRig.open({}, { server: { max_concurrent_requests: 1 } });
    const id = rig.newId();
    const held = rig.post('wait', { id });
    await rig.untilHeld(1);
    expect(await rig.sample('llm_d_coordinator_admission_body_bytes')).toBe(0);
    expect((await rig.post('')).status).toBe(200);
    await rig.finish(id, response(200));
    expect((await held).status).toBe(200);
    expect((await rig.post('')).status).toBe(200);
  });

  it('attach a repeated id to the first body where id_conflict says so (4.17)', async () => {
    await using rig = await QueueRig.open({ id_conflict: 'attach' });
    const id = await rig.stored(response(200, 'first'));
    const { status, text } = await rig.post('wait', { id, body: { model: 'm', prompt: 'other' } });
    expect([status, text]).toEqual([200, 'first']);
  });

  it('run a stored failure again where rerun_on_retry names it (1.8)', async () => {
    await using rig = await QueueRig.open({ rerun_on_retry: ['503'] });
    const id = await rig.stored(response(503));
    await rig.post('enqueue', { id });
    expect((await rig.get(id)).status).toBe(202);
  });

  it('serve the models of the routes (1.10)', async () => {
    await using rig = await QueueRig.open({
      serve_models: true,
      routes: [{ model: 'b' }, { model: 'a', tenant: 't' }, { tenant: 'x' }, { model: 'b' }],
    });
    const { text } = await rig.coordinator.ask(undefined, { method: 'GET', path: '/v1/models' });
    const model = (id: string) => ({ id, object: 'model', owned_by: 'llm-d-async' });
    expect(JSON.parse(text)).toEqual({ object: 'list', data: [model('b'), model('a')] });
  });

  it('read headers of their own names alone', async () => {
    await using rig = await QueueRig.open({ mode_header: 'X-Mode' });
    expect((await rig.post('enqueue')).status).toBe(200);
    const { status } = await rig.coordinator.ask(completion, {
      path: '/v1/completions',
      headers: { 'x-mode': 'enqueue' },
    });
    expect(status).toBe(202);
  });
});

describe('a coordinator', () => {
  it('without the step knows no modes and has no routes', async () => {
    const coordinator = await TestCoordinator.open();
    await coordinator.start({ pipeline: { passthrough: false, steps: [{ type: 'decode' }] } });
    const headers = { 'x-llm-d-async-mode': 'enqueue' };
    const { status } = await coordinator.ask(completion, { path: '/v1/completions', headers });
    expect(status).toBe(200);
    const byId = await coordinator.ask(undefined, { method: 'GET', path: '/v1/requests/a' });
    expect(byId.status).toBe(404);
    expect(await coordinator.metrics()).not.toContain('async_broker');
    await coordinator.close();
  });

  it('does not start with the step in another place than the first (coordinator.md 7.5)', async () => {
    const coordinator = await TestCoordinator.open();
    const broker = { type: 'async-broker', params: { redis_url: 'redis://127.0.0.1:1' } };
    const steps = [{ type: 'encode' }, broker, { type: 'decode' }];
    await expect(coordinator.start({ pipeline: { steps } })).rejects.toThrow(
      'expected async-broker as the first step',
    );
    await coordinator.close();
  });
});
