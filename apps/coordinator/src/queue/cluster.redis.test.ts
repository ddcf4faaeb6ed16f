import { type RedisClusterServers } from '@llm-d/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { completion, errorOf, QueueRig, response } from './testing.ts';

let rig: QueueRig<RedisClusterServers>;
beforeAll(async () => {
  rig = await QueueRig.openOnCluster();
}, 30_000);
afterAll(() => rig.close());

const tenants = ['default', 'team-a', 'team-b'];
const of = (tenant: string) => ({ 'x-llm-d-tenant': tenant });

describe('a queue on a Redis cluster of three nodes', () => {
  it('stores, runs and gives back requests on every node', async () => {
    const asked = Array.from({ length: 30 }, (_, index) => ({
      id: rig.newId(),
      tenant: tenants[index % tenants.length] ?? '',
    }));
    for (const answer of await Promise.all(
      asked.map(({ id, tenant }) => rig.post('enqueue', { id, headers: of(tenant) })),
    )) {
      expect(answer.status).toBe(202);
    }
    const records = await Promise.all(
      rig.redis.nodes.map(async (node) => (await node.command('KEYS', 'ab:*:rec')).match(/:rec/g)),
    );
    for (const kept of records) expect(kept?.length).toBeGreaterThan(0);
    for (const { id, tenant } of asked) {
      expect((await rig.get(id, of(tenant))).status).toBe(202);
      await rig.finish(id, response(200, `{"id":"${id}"}`), tenant);
      expect(await rig.get(id, of(tenant))).toMatchObject({
        ...{ status: 200, text: `{"id":"${id}"}` },
      });
      expect((await rig.get(id, of('team-c'))).status).toBe(404);
    }
  });

  it('holds an answer until its result', async () => {
    const id = rig.newId();
    const held = rig.post('wait', { id });
    await rig.finish(id, response(200, '{"held":1}'));
    expect(await held).toMatchObject({ status: 200, text: '{"held":1}' });
  });

  it('knows a request that comes twice, and refuses its id for another', async () => {
    const id = rig.newId();
    const headers = { 'idempotency-key': 'once' };
    for (let i = 0; i < 2; i++) {
      expect(await rig.post('enqueue', { id, headers })).toMatchObject({ status: 202 });
    }
    const other = { ...completion, prompt: 'other' };
    const refused = await rig.post('enqueue', { id, body: other });
    expect([refused.status, errorOf(refused)['code']]).toEqual([409, 'ID_CONFLICT']);
  });

  it('cancels', async () => {
    const id = rig.newId();
    await rig.post('enqueue', { id });
    expect((await rig.delete(id)).status).toBe(204);
    expect((await rig.get(id)).status).toBe(404);
  });

  it('counts what is served live against the quota of its tenant', async () => {
    rig.coordinator.play({ decode: { json: { served: 1 } } });
    expect(await rig.post('passthrough')).toMatchObject({ status: 200, text: '{"served":1}' });
  });
});
