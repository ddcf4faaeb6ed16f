import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { QueueRig } from './testing.ts';

let rig: QueueRig;
beforeAll(async () => {
  rig = await QueueRig.open({
    quota: { limits: { 'team-a': 1 } },
    objectives: { async: { reserved: 'async-reserved', overflow: 'async-overflow' } },
    routes: [{ tenant: 'silent', tier: 'batch' }],
  });
});
afterAll(() => rig.close());
afterEach(() => {
  rig.coordinator.play({});
});

const pass = (headers: Record<string, string>) => rig.post('passthrough', { headers });
const headersOfLast = () => rig.coordinator.legs('decode').at(-1)?.headers ?? {};
const objective = 'x-llm-d-inference-objective';
const fairness = 'x-llm-d-inference-fairness-id';

describe('passthrough', () => {
  it('C22 is reserved while the limit is kept: ours replaces what the client says', async () => {
    const { status } = await pass({
      ...{ 'x-llm-d-tenant': 'team-a', [objective]: 'mine', [fairness]: 'mine' },
      ...{ 'x-gateway-inference-objective': 'mine', 'x-gateway-inference-fairness-id': 'mine' },
      ...{ 'x-request-timeout-seconds': '5', 'x-other': 'kept' },
    });
    expect(status).toBe(200);
    const headers = headersOfLast();
    expect(headers).toMatchObject({
      [objective]: ['async-reserved'],
      [fairness]: ['team-a'],
      'x-other': ['kept'],
    });
    expect(
      Object.keys(headers).filter((name) => /gateway-inf|async-mode|tenant|timeout/.test(name)),
    ).toEqual([]);
  });

  it('C23 C24 is overflow beyond the limit, and reserved again when the first has ended', async () => {
    const open = Promise.withResolvers<undefined>();
    rig.coordinator.play({ decode: { delay: open.promise, json: {} } });
    const before = rig.coordinator.legs('decode').length;
    const first = pass({ 'x-team': 'team-a' });
    while (rig.coordinator.legs('decode').length === before) await sleep(2);
    expect(headersOfLast()[objective]).toEqual(['async-reserved']);
    rig.coordinator.play({});
    await pass({ 'x-team': 'team-a' });
    expect(headersOfLast()).toMatchObject({ [objective]: ['async-overflow'] });
    open.resolve(undefined);
    await first;
    const startedAt = performance.now();
    do await pass({ 'x-team': 'team-a' });
    while (headersOfLast()[objective]?.[0] !== 'async-reserved');
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it('C24 gives the place back when the client leaves', async () => {
    rig.coordinator.play({ decode: { beforeHeaders: 'hang' } });
    const before = rig.coordinator.legs('decode').length;
    const leave = new AbortController();
    const left = fetch(`${rig.coordinator.url}/v1/completions`, {
      ...{ method: 'POST', body: '{"model":"m","prompt":"x"}', signal: leave.signal },
      headers: { 'x-llm-d-async-mode': 'passthrough', 'x-team': 'team-a' },
    }).catch(() => 'left');
    while (rig.coordinator.legs('decode').length === before) await sleep(2);
    leave.abort();
    expect(await left).toBe('left');
    rig.coordinator.play({});
    do await pass({ 'x-team': 'team-a' });
    while (headersOfLast()[objective]?.[0] !== 'async-reserved');
  });

  it('C25 is always reserved for a tenant without a limit, and counts nothing', async () => {
    const keys = () => rig.redis.command('KEYS', 'ab:quota:*');
    const before = await keys();
    await pass({ 'x-team': 'free' });
    expect(headersOfLast()).toMatchObject({
      [objective]: ['async-reserved'],
      [fairness]: ['free'],
    });
    expect(await keys()).toBe(before);
  });

  it('has no objective where its tier has none, and never the client’s', async () => {
    await pass({ 'x-team': 'silent', [objective]: 'mine' });
    expect(headersOfLast()).not.toHaveProperty(objective);
    expect(headersOfLast()).toMatchObject({ [fairness]: ['silent'] });
  });

  it('may be a stream', async () => {
    const body = { model: 'm', prompt: 'x', stream: true };
    expect((await rig.post('passthrough', { body })).status).toBe(200);
  });

  it('hands a tenant with UTF-8 on as its bytes', async () => {
    const tenant = Buffer.from('größe').toString('latin1');
    const body = Buffer.from('{"model":"m","prompt":"x"}');
    await rig.post('passthrough', { headers: { 'x-team': tenant }, body });
    expect(headersOfLast()).toMatchObject({ [fairness]: [tenant] });
  });

  it.each([
    { name: 'C8 no model', body: { prompt: 'x' } },
    { name: 'C9 a tenant with a colon', headers: { 'x-team': 'a:b' } },
  ])('is 400 with $name', async (options) => {
    expect((await rig.post('passthrough', options)).status).toBe(400);
  });

  it('C37 goes on, reserved, when Redis is down, and the log says so', async () => {
    await rig.redis.kill();
    const before = rig.coordinator.lines.length;
    expect((await pass({ 'x-team': 'team-a' })).status).toBe(200);
    expect(headersOfLast()).toMatchObject({ [objective]: ['async-reserved'] });
    expect(rig.coordinator.lines.slice(before)).toContainEqual(
      expect.objectContaining({ msg: 'the quota cannot be asked and is not enforced' }),
    );
  });
});
