import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { errorOf, QueueRig, response } from './testing.ts';

let rig: QueueRig;
beforeAll(async () => {
  rig = await QueueRig.open();
});
afterAll(() => rig.close());

/** How long a refusal took, the fastest of some, since the machine may be busy with others. */
async function fastest(
  ask: () => Promise<{ status: number | undefined }>,
  tries: number,
): Promise<number> {
  let best = Infinity;
  for (let i = 0; i < tries; i++) {
    const startedAt = performance.now();
    const { status } = await ask();
    best = Math.min(best, performance.now() - startedAt);
    expect(status).toBe(503);
  }
  return best;
}

describe('a Redis that is down', () => {
  beforeEach(async () => {
    await rig.redis.kill();
    await rig.unreachable();
  });
  afterAll(async () => {
    await rig.redis.restart();
    await rig.reachable();
  });

  it('C11 refuses to enqueue with 503, the id, and when to try again; counted as internal', async () => {
    const before = await rig.errors('internal');
    const answer = await rig.post('enqueue', { id: 'lost' });
    expect(answer.status).toBe(503);
    expect(errorOf(answer)).toMatchObject({ code: 'ENQUEUE_FAILED', type: 'api_error' });
    expect(answer.headers).toMatchObject({ 'x-request-id': 'lost', 'retry-after': '1' });
    expect(await rig.errors('internal')).toBe(before + 1);
    expect(JSON.stringify(answer)).not.toContain('127.0.0.1');
  });

  it('answers 503 in less than 5 ms', async () => {
    await rig.post('enqueue');
    expect(await fastest(() => rig.post('enqueue'), 10)).toBeLessThan(5);
    expect(await fastest(() => rig.get('lost'), 10)).toBeLessThan(5);
  });

  it('fills no log: one line a second', async () => {
    const { lines } = rig.coordinator;
    const before = lines.length;
    for (let i = 0; i < 20; i++) await Promise.all([rig.post('enqueue'), rig.get('lost')]);
    const faults = lines.slice(before).filter(({ msg }) => msg !== 'request');
    expect(faults.length).toBeLessThan(10);
  });

  it('fails lookups and deletions with 503', async () => {
    const [get, del] = [await rig.get('lost'), await rig.delete('lost')];
    expect([get.status, del.status]).toEqual([503, 503]);
    expect([errorOf(get)['code'], errorOf(del)['code']]).toEqual([
      'LOOKUP_FAILED',
      'DELETE_FAILED',
    ]);
    expect(get.headers['retry-after']).toBe('1');
  });

  it('does not concern readiness, nor requests without a mode', async () => {
    const ready = await rig.coordinator.ask(undefined, { method: 'GET', path: '/readyz?verbose' });
    expect(ready.status).toBe(200);
    expect(ready.text).toContain('"queue":"down"');
    expect(await rig.sample('llm_d_async_broker_redis_ready')).toBe(0);
    expect((await rig.post('')).status).toBe(200);
  });

  it('is used again when it is back', async () => {
    await rig.redis.restart();
    await rig.reachable();
    expect((await rig.post('enqueue', { id: 'lost' })).status).toBe(202);
  });
});

describe('a Redis that is frozen', () => {
  it('is 503 within 2.1 s, and the same id sent again is one request', async () => {
    rig.redis.freeze();
    const startedAt = performance.now();
    const [post, get] = await Promise.all([
      rig.post('enqueue', { id: 'frozen' }),
      rig.get('frozen'),
    ]);
    const tookMs = performance.now() - startedAt;
    rig.redis.thaw();
    expect([post.status, get.status]).toEqual([503, 503]);
    expect(post.headers['x-request-id']).toBe('frozen');
    // The limit is 2.1 s; a busy machine gets a little more.
    expect(tookMs).toBeLessThan(2_300);
    await rig.reachable();
    while ((await rig.post('enqueue', { id: 'frozen' })).status !== 202) await sleep(20);
    await rig.finish('frozen', response(200));
    expect((await rig.get('frozen')).status).toBe(200);
  });
});

describe('held answers', () => {
  it('F10 end with 504 at their deadline while Redis is down', async () => {
    const headers = { 'x-request-timeout-seconds': '1' };
    const held = rig.post('wait', { id: 'overdue', headers });
    await rig.untilHeld(1);
    const startedAt = performance.now();
    await rig.redis.kill();
    const answer = await held;
    expect([answer.status, errorOf(answer)['code']]).toEqual([504, 'DEADLINE_EXCEEDED']);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    await rig.redis.restart();
    await rig.reachable();
  });

  it('outlive a restart of Redis and get their result after it', async () => {
    const held = rig.post('wait', { id: 'held' });
    await rig.untilHeld(1);
    await rig.redis.kill();
    await rig.redis.restart();
    await rig.reachable();
    await rig.finish('held', response(200));
    expect((await held).status).toBe(200);
  });
});

describe('a Redis that would lose requests (4.14)', () => {
  it('is not used, and the log names the command that mends it', async () => {
    await rig.redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    while ((await rig.post('enqueue')).status !== 503) await sleep(50);
    const answer = await rig.post('enqueue');
    expect(errorOf(answer)['code']).toBe('ENQUEUE_FAILED');
    const said = rig.coordinator.lines.filter(
      ({ msg }) => msg === 'the Redis of the queue would lose requests',
    );
    expect(said).toHaveLength(1);
    expect(JSON.stringify(said)).toContain('CONFIG SET maxmemory-policy noeviction');
    await rig.redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    while ((await rig.post('enqueue')).status !== 202) await sleep(50);
  });
});
