import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Broker } from './broker.ts';
import { recordKeys } from './keys.ts';
import { type RequestRef } from './names.ts';
import { type WaitEnd, type WaitOptions } from './retrieval.ts';
import { accept, answer, type BrokerBench, brokerBench, soon } from './testing.ts';

let bench: BrokerBench;
let broker: Broker;
const wakeups: string[] = [];

beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  wakeups.length = 0;
  broker = await bench.open({ observer: { onWakeup: (source) => void wakeups.push(source) } });
});

const never = new AbortController().signal;
const wait = (ref: RequestRef, options: Partial<WaitOptions> = {}): Promise<WaitEnd> =>
  broker.wait(ref, { timeoutMs: 30_000, signal: never, isCounted: true, ...options });
const finish = (ref: RequestRef, text = '{}') => broker.dispatch.finish(ref, '', answer(text));
const waiters = async (ref: RequestRef) => Number(await bench.redis.hget(recordKeys(ref)[0], 'w'));

async function settle(end: WaitEnd, isDelivered: boolean): Promise<void> {
  if (end.kind !== 'ready') throw new Error(`expected a result, got ${end.kind}`);
  await end.settle(isDelivered);
}

/** Resolves when the subscription stands, so that what follows comes by message. */
async function subscribed(): Promise<void> {
  const signal = soon();
  while (!(await bench.redis.pubsub('NUMSUB', 'ab:done')).includes(1)) {
    signal.throwIfAborted();
  }
}

describe('4.11 a held wait', () => {
  it('gets the result by message, well under the sweep (C44), and the result is gone then (C12)', async () => {
    // A new subscription looks at all waits once, which may find the result before the message comes.
    const first = await accept(broker, { mode: 'wait' });
    const opening = wait(first);
    await subscribed();
    await finish(first);
    await settle(await opening, true);
    wakeups.length = 0;
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    const startedAt = performance.now();
    await finish(ref, 'text');
    const end = await held;
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(end).toMatchObject({ kind: 'ready', outcome: answer('text') });
    expect(wakeups).toContain('pubsub');
    await settle(end, true);
    expect(await broker.fetch(ref)).toEqual({ kind: 'unknown' });
  });

  it('gets at once what is stored already', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    await finish(ref);
    expect(await wait(ref)).toMatchObject({ kind: 'ready' });
  });

  it('whose answer did not reach the client leaves the result', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    await finish(ref);
    await settle(await wait(ref), false);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready' });
    expect(await bench.redis.pttl(recordKeys(ref)[0])).toBeGreaterThan(3_000_000);
  });

  it('two on one request: both get it; the first delivery leaves it to the second (C43, hazard b)', async () => {
    const ref = await accept(broker, { id: 'x', mode: 'wait' });
    expect(await accept(broker, { id: 'x', mode: 'wait' })).toMatchObject({ kind: 'live' });
    const both = [wait(ref), wait(ref)];
    await subscribed();
    await finish(ref);
    const [one, two] = await Promise.all(both);
    if (one === undefined || two === undefined) throw new Error('expected two');
    await settle(one, true);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready' });
    expect(await bench.redis.pttl(recordKeys(ref)[0])).toBeLessThanOrEqual(60_000);
    await settle(two, true);
    expect(await broker.fetch(ref)).toEqual({ kind: 'unknown' });
  });

  it('the leaving of one does not end the other (C43)', async () => {
    const ref = await accept(broker, { id: 'x', mode: 'wait' });
    await accept(broker, { id: 'x', mode: 'wait' });
    const leaving = new AbortController();
    const first = wait(ref, { signal: leaving.signal });
    const second = wait(ref);
    await subscribed();
    leaving.abort();
    expect(await first).toEqual({ kind: 'left' });
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    await finish(ref);
    expect(await second).toMatchObject({ kind: 'ready', outcome: { kind: 'response' } });
  });

  it('the cap comes first: pending, and the request goes on (C16)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    expect(await wait(ref, { capMs: 30 })).toEqual({ kind: 'pending' });
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    expect(await waiters(ref)).toBe(0);
  });

  it("the request's deadline comes first: DEADLINE_EXCEEDED is stored, without any worker (C17)", async () => {
    const ref = await accept(broker, { mode: 'wait', timeoutMs: 50 });
    const outcome = { kind: 'error', code: 'DEADLINE_EXCEEDED' };
    expect(await wait(ref)).toMatchObject({ kind: 'ready', outcome });
    expect((await broker.backlog('a')).open).toBe(0);
  });

  it("an attached waiter's own deadline ends its wait only", async () => {
    const ref = await accept(broker);
    expect(await wait(ref, { timeoutMs: 30, isCounted: false })).toEqual({ kind: 'timed-out' });
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    expect(await waiters(ref)).toBe(0);
  });

  it('a DELETE ends it, although its ticket is gone (P8)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    await subscribed();
    await broker.cancel(ref);
    expect(await held).toEqual({ kind: 'unknown' });
    expect(await wait({ ...ref, id: 'never' }, { isCounted: false })).toEqual({ kind: 'unknown' });
  });

  it('the end of the process: closing, and nothing is cancelled (4.13)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    await subscribed();
    broker.releaseWaits();
    expect(await held).toEqual({ kind: 'closing' });
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    expect(await waiters(ref)).toBe(0);
    expect(broker.heldWaits).toBe(0);
  });
});

describe('4.12 a client that leaves', () => {
  const leave = (ref: RequestRef) => wait(ref, { signal: AbortSignal.abort() });

  it('cancels what a wait queued (F24)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    expect(await leave(ref)).toEqual({ kind: 'left' });
    expect(await broker.fetch(ref)).toMatchObject({ outcome: { code: 'CANCELLED' } });
    expect(await broker.dispatch.begin(ref, 't')).toEqual({ kind: 'done' });
  });

  it('does not cancel what an enqueue queued (hazard c)', async () => {
    const ref = await accept(broker, { id: 'x' });
    await accept(broker, { id: 'x', mode: 'wait' });
    await leave(ref);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
  });

  it('ends what runs as CANCELLED, and tells the worker of another process in 100 ms (F25)', async () => {
    const other = await bench.open();
    const told = Promise.withResolvers<unknown>();
    other.dispatch.onCancel((ref, reason) => told.resolve({ ref, reason }));
    await subscribed();
    const accepted = await accept(broker, { mode: 'wait' });
    const { tenant, id, generation } = accepted;
    await other.dispatch.begin(accepted, 't');
    const startedAt = performance.now();
    await leave(accepted);
    expect(await told.promise).toEqual({ ref: { tenant, id, generation }, reason: 'disconnect' });
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(await broker.fetch(accepted)).toMatchObject({ outcome: { code: 'CANCELLED' } });
    expect(await other.dispatch.finish(accepted, 't', answer('late'))).toBe('already');
    expect((await broker.backlog('a')).open).toBe(0);
  });

  it('leaves what runs alone where the configuration says so', async () => {
    const lenient = await bench.open({ cancelActiveOnDisconnect: false });
    const ref = await accept(lenient, { mode: 'wait' });
    await lenient.dispatch.begin(ref, 't');
    await lenient.wait(ref, { timeoutMs: 1_000, signal: AbortSignal.abort(), isCounted: true });
    expect(await lenient.dispatch.finish(ref, 't', answer('{}'))).toBe('stored');
  });

  it('DELETE tells the worker, and its lost message shows in the standings', async () => {
    const ref = await accept(broker);
    const told = Promise.withResolvers<string>();
    const stop = broker.dispatch.onCancel((_ref, reason) => told.resolve(reason));
    await subscribed();
    await broker.dispatch.begin(ref, 't');
    expect(await broker.cancel(ref)).toBe('active');
    expect(await told.promise).toBe('delete');
    expect(await broker.dispatch.standings([{ ref, token: 't' }])).toEqual(['gone']);
    stop();
  });
});

describe('4.11 lost messages', () => {
  it('the sweep finds within 2 s what no message told (F17)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    await subscribed();
    const [rec] = recordKeys(ref);
    await bench.redis.hset(rec, 's', 'done', 'rc', 'INFERENCE_ERROR', 'rm', 'text');
    expect(await held).toMatchObject({ kind: 'ready', outcome: { code: 'INFERENCE_ERROR' } });
    expect(wakeups).toEqual(['sweep']);
  });

  it('what ended while the subscription was down is seen when it is back', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    await subscribed();
    await bench.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    const startedAt = performance.now();
    await finish(ref);
    expect(await held).toMatchObject({ kind: 'ready' });
    // The next sweep of its own would come 2 s after the wait began.
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    const again = await accept(broker, { mode: 'wait' });
    await subscribed();
    wakeups.length = 0;
    const heldAgain = wait(again);
    await finish(again);
    expect(await heldAgain).toMatchObject({ kind: 'ready' });
  });

  it('a wait outlives a restart of Redis with its append-only file (F9)', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    const held = wait(ref);
    await subscribed();
    await bench.server.kill();
    await bench.server.restart();
    await broker.untilReady(soon());
    await finish(ref);
    expect(await held).toMatchObject({ kind: 'ready' });
  });
});

describe('4.11 many waits', () => {
  it('2,000 of one process share one subscription, each gets its own result, and no listener leaks (P32)', async () => {
    const count = 2_000;
    const warnings: string[] = [];
    const note = ({ name }: Error): void => void warnings.push(name);
    process.on('warning', note);
    const refs: RequestRef[] = [];
    // In parts, so that no call stands behind 2,000 others for its 2 s.
    for (let from = 0; from < count; from += 100) {
      const part = Array.from({ length: 100 }, (_, index) =>
        accept(broker, { id: `n-${from + index}`, mode: 'wait' }),
      );
      refs.push(...(await Promise.all(part)));
    }
    const held = refs.map((ref) => wait(ref));
    await subscribed();
    expect(broker.heldWaits).toBe(count);
    const clients = String(await bench.redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
    expect(clients.trim().split('\n')).toHaveLength(1);
    const worker = await bench.open();
    for (let from = 0; from < count; from += 100) {
      const part = refs.slice(from, from + 100);
      await Promise.all(part.map((ref) => worker.dispatch.finish(ref, '', answer(ref.id))));
    }
    const ends = await Promise.all(held);
    const texts = ends.map((end) =>
      end.kind === 'ready' && end.outcome.kind === 'response' ? String(end.outcome.body) : end.kind,
    );
    expect(texts).toEqual(refs.map(({ id }) => id));
    expect(broker.heldWaits).toBe(0);
    process.off('warning', note);
    expect(warnings).not.toContain('MaxListenersExceededWarning');
  });
});
