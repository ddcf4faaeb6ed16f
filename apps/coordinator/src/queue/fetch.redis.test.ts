import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { errorOf, QueueRig, response } from './testing.ts';

let rig: QueueRig;
beforeAll(async () => {
  rig = await QueueRig.open();
});
afterAll(() => rig.close());

const teamA = { 'x-llm-d-tenant': 'team-a' };
const other = { 'x-llm-d-tenant': 'team-b' };

/** Seconds that a record has left, by its key. */
async function secondsLeft(id: string, tenant = 'default'): Promise<number> {
  const name = Buffer.from(tenant).toString('base64url');
  return Number((await rig.redis.command('TTL', `ab:{${name}~${id}}:rec`)).replace(':', ''));
}

describe('GET /v1/requests/<id>', () => {
  it('C26 is 404 for an id that never was, with an error object', async () => {
    const answer = await rig.get('never');
    expect(answer.status).toBe(404);
    expect(errorOf(answer)).toMatchObject({
      ...{ code: 'UNKNOWN_REQUEST', type: 'invalid_request_error' },
      message: expect.stringMatching(/^no such request/),
    });
  });

  it('C27 is 202 for one that is pending, and 404 to another tenant', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id, headers: teamA });
    const answer = await rig.get(id, teamA);
    expect([answer.status, answer.text]).toEqual([202, `{"id":"${id}","status":"pending"}`]);
    for (const headers of [other, {}]) expect((await rig.get(id, headers)).status).toBe(404);
    await rig.begin(id, 'team-a');
    expect((await rig.get(id, teamA)).status).toBe(202);
  });

  it('C28 gives a result as it is, again and again, and keeps it for the grace', async () => {
    const id = await rig.stored(response(200, ' {"big": 9007199254740993, "n":1.0}\n'));
    for (const answer of [await rig.get(id), await rig.get(id)]) {
      const { status, text, headers } = answer;
      expect([status, text]).toEqual([200, ' {"big": 9007199254740993, "n":1.0}\n']);
      expect(headers['content-type']).toBe('application/json');
    }
    const seconds = await secondsLeft(id);
    expect(seconds).toBeGreaterThan(50);
    expect(seconds).toBeLessThanOrEqual(60);
  });

  it('keeps a result for its whole life as long as nobody fetched it', async () => {
    const id = await rig.stored(response(200));
    await rig.coordinator.ask(undefined, { method: 'HEAD', path: `/v1/requests/${id}` });
    expect(await secondsLeft(id)).toBeGreaterThan(3_500);
  });

  it('C29 is 404 for a result of another tenant, and says nothing else', async () => {
    const id = await rig.stored(response(200), 'team-a');
    const [foreign, unknown] = [await rig.get(id, other), await rig.get('never', other)];
    const told = ({ status, text }: typeof foreign) => [
      status,
      text.replaceAll(/[0-9a-f-]{36}/g, 'ID'),
    ];
    expect(told(foreign)).toEqual(told(unknown));
    expect((await rig.get(id, teamA)).status).toBe(200);
  });

  it.each([
    { name: 'C32 an id that cannot be one', id: 'bad*id', headers: {} },
    { name: 'an id of 129 characters', id: 'a'.repeat(129), headers: {} },
    { name: 'an id of 4000 characters', id: 'a'.repeat(4_000), headers: {} },
    { name: 'C32 a tenant with a colon', id: 'a', headers: { 'x-team': 'team:a' } },
    {
      name: 'tenants that differ',
      id: 'a',
      headers: { 'x-team': 'a', 'x-llm-d-tenant': 'b' },
    },
  ])('and DELETE are 400 for $name', async ({ id, headers }) => {
    for (const answer of [await rig.get(id, headers), await rig.delete(id, headers)]) {
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toMatchObject({
        ...{ code: 'INVALID_REQUEST', type: 'invalid_request_error' },
      });
    }
  });

  it('C33 is 502 for a stored status 42, and the next request is served', async () => {
    const answer = await rig.get(await rig.stored(response(42)));
    expect(answer.status).toBe(502);
    expect(errorOf(answer)).toMatchObject({ code: 'MALFORMED_RESULT', type: 'api_error' });
    expect((await rig.get('never')).status).toBe(404);
  });

  it.each([
    { code: 'DEADLINE_EXCEEDED', status: 504, type: 'timeout_error' },
    { code: 'GATE_DROPPED', status: 429, type: 'rate_limit_error' },
    { code: 'INVALID_REQUEST', status: 400, type: 'invalid_request_error' },
    { code: 'CANCELLED', status: 499, type: 'cancelled' },
    { code: 'INFERENCE_ERROR', status: 502, type: 'api_error' },
  ] as const)('C35 is $status for a stored $code', async ({ code, status, type }) => {
    const answer = await rig.get(await rig.stored({ kind: 'error', code, message: 'why' }));
    expect(answer.status).toBe(status);
    expect(errorOf(answer)).toMatchObject({ code, type });
  });

  it.each([404, 500])('mirrors a stored %i', async (status) => {
    const answer = await rig.get(await rig.stored(response(status, '{"error":{}}')));
    expect([answer.status, answer.text]).toEqual([status, '{"error":{}}']);
  });

  it('is 504 past the deadline, although no worker runs (1.7, hazard d)', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id, headers: { 'x-request-timeout-seconds': '1' } });
    expect((await rig.get(id)).status).toBe(202);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    const answer = await rig.get(id);
    expect(answer.status).toBe(504);
    expect(errorOf(answer)['code']).toBe('DEADLINE_EXCEEDED');
  });
});

describe('DELETE /v1/requests/<id>', () => {
  it('C30 of a result of another tenant is 204 and does nothing', async () => {
    const id = await rig.stored(response(200), 'team-a');
    const answer = await rig.delete(id, other);
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect((await rig.get(id, teamA)).status).toBe(200);
  });

  it('C31 of a result is 204, and it is gone', async () => {
    const id = await rig.stored(response(200), 'team-a');
    expect((await rig.delete(id, teamA)).status).toBe(204);
    expect((await rig.get(id, teamA)).status).toBe(404);
  });

  it('C34 of a pending request is 204: it is gone at once and its ticket with it', async () => {
    const [id, before] = [rig.newId(), await rig.waiting()];
    await rig.post('enqueue', { id });
    expect((await rig.delete(id)).status).toBe(204);
    expect((await rig.get(id)).status).toBe(404);
    expect(await rig.waiting()).toBe(before);
  });

  it('of a running request tells the worker within a second, and drops what it answers (1.9)', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id });
    const ref = await rig.begin(id);
    const told = new Promise((resolve) => {
      rig.broker.dispatch.onCancel(resolve);
    });
    // A worker listens from its start on.
    while (!(await rig.redis.command('PUBSUB', 'CHANNELS')).includes('ab:cancel'));
    const startedAt = performance.now();
    expect((await rig.delete(id)).status).toBe(204);
    expect(await told).toMatchObject({ id });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(await rig.broker.dispatch.finish(ref, 'token', response(200))).toBe('gone');
    expect((await rig.get(id)).status).toBe(404);
  });

  it('of an id that never was is 204', async () => {
    expect((await rig.delete('never')).status).toBe(204);
  });

  it('takes no other method', async () => {
    const { status, headers } = await rig.coordinator.ask({}, { path: '/v1/requests/a' });
    expect([status, headers.allow]).toEqual([405, 'GET, DELETE']);
  });
});

describe('/v1/models', () => {
  it('is the workers’ (1.10)', async () => {
    rig.coordinator.play({ decode: { json: { data: ['of a worker'] } } });
    const { text } = await rig.coordinator.ask(undefined, { method: 'GET', path: '/v1/models' });
    expect(text).toContain('of a worker');
  });
});
