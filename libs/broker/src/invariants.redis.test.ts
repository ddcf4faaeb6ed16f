import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { laneOpenKey, memberOf } from './keys.ts';
import { type LaneWorker, type TicketEnd, type TicketHandler } from './lane-worker.ts';
import { type RequestRef } from './names.ts';
import { answer, type BrokerBench, brokerBench, soon, submission } from './testing.ts';

let bench: BrokerBench;
beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());

/** Repeats itself for a seed, so that a failure can be looked at (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const tenants = ['one', 'two'];
const timeoutMs = 2_500;

describe('5 invariants', () => {
  it.each([1])('hold while clients and workers do what they like, seed %i', async (seed) => {
    await bench.reset();
    const random = randomOf(seed);
    const broker = await bench.open({ tenant: () => ({ concurrency: 4 }) });
    /** When an outcome of a member was stored, by the answers of `finish`. */
    const storedAt = new Map<string, number>();
    const violations: string[] = [];
    const revived = new AbortController();
    const handlers: Promise<unknown>[] = [];
    const accepted = new Map<string, RequestRef>();

    const handle: TicketHandler = (ticket, signal) => {
      const end = run(ticket, signal);
      handlers.push(end);
      return end;
    };
    const run: TicketHandler = async (ticket, signal) => {
      const member = memberOf(ticket);
      const token = randomUUID();
      const askedAt = performance.now();
      const begun = await broker.dispatch.begin(ticket, token);
      if (begun.kind !== 'run') return { kind: 'done' };
      if (askedAt > (storedAt.get(member) ?? Infinity)) violations.push(`I3 ${member}`);
      await using lease = await broker.dispatch.acquireQuota(ticket.tenant);
      const luck = random() + (lease.classification === 'overflow' ? 0.05 : 0);
      if (luck < 0.1) {
        // A worker that dies with its call: the ticket comes to another.
        const end = AbortSignal.any([signal, revived.signal]);
        await new Promise((resolve) => end.addEventListener('abort', resolve));
        return { kind: 'done' };
      }
      if (luck < 0.25) return await park(ticket, token, { kind: 'delay', delayMs: random() * 60 });
      if (luck < 0.3) return await park(ticket, token, { kind: 'return' });
      await sleep(random() * 20);
      // Some store twice, as one does that got no answer.
      for (let times = luck < 0.5 ? 2 : 1; times > 0; times -= 1) {
        const outcome = answer(token, luck < 0.6 ? 500 : 200);
        if ((await broker.dispatch.finish(ticket, token, outcome)) === 'stored') {
          if (storedAt.has(member)) violations.push(`stored twice ${member}`);
          storedAt.set(member, performance.now());
        }
      }
      // A ticket may come again although its request has an outcome.
      return luck > 0.9 ? { kind: 'delay', delayMs: 10 } : { kind: 'done' };
    };
    const park = async (ref: RequestRef, token: string, end: TicketEnd): Promise<TicketEnd> => {
      await broker.dispatch.park(ref, token, { isRetry: end.kind === 'delay' });
      return end;
    };
    const openWorker = (): Promise<LaneWorker> => {
      const times = { lockMs: 300, stalledIntervalMs: 100 };
      return broker.openLaneWorker({ lane: 'a', concurrency: 8, handle, ...times }, soon());
    };

    const client = async (): Promise<void> => {
      for (let turn = 0; turn < 12; turn += 1) {
        const tenant = tenants[Math.floor(random() * 2)] ?? '';
        const name = { tenant, id: `id-${Math.floor(random() * 25)}` };
        const mode = random() < 0.5 ? 'wait' : 'enqueue';
        const result = await broker.submit(submission({ ...name, mode, timeoutMs }));
        if (!('generation' in result)) throw new Error(`not accepted: ${result.kind}`);
        accepted.set(memberOf(result), result);
        if (mode === 'wait') {
          const gone = new AbortController();
          const leave = setTimeout(() => gone.abort(), random() * 200);
          const wait = { timeoutMs, capMs: 150, isCounted: true, signal: gone.signal };
          const end = await broker.wait(result, wait);
          clearTimeout(leave);
          if (end.kind === 'ready') await end.settle(random() < 0.5);
        }
        if (random() < 0.15) await broker.cancel(name);
        await sleep(random() * 30);
      }
    };

    let workers = [await openWorker(), await openWorker()];
    const closed: Promise<void>[] = [];
    const clients = Promise.all(Array.from({ length: 10 }, client));
    for (let round = 0; round < 4; round += 1) {
      await sleep(150);
      const [oldest, ...others] = workers;
      if (oldest) closed.push(oldest.close());
      workers = [...others, await openWorker()];
    }
    await clients;

    // I1: nothing may be without an end for longer than its deadline and the sweeper's patience.
    const sweeper = broker.startSweeper();
    const signal = AbortSignal.timeout(timeoutMs + 5_000);
    while ((await bench.redis.zcard(laneOpenKey('a'))) > 0) {
      signal.throwIfAborted();
      await sweeper.sweep();
      await sleep(50);
    }
    await sweeper.close();
    await Promise.all([...closed, ...workers.map((worker) => worker.close())]);
    expect(violations).toEqual([]);
    expect(storedAt.size).toBeGreaterThan(20);
    for (const ref of accepted.values()) {
      const first = await broker.fetch(ref);
      // I1, I2: an end that stays, or none for a request that was deleted, delivered or ran anew.
      expect(['ready', 'unknown']).toContain(first.kind);
      expect(await broker.fetch(ref)).toEqual(first);
      // I4
      expect(await broker.fetch({ ...ref, tenant: 'three' })).toEqual({ kind: 'unknown' });
    }
    // I5, I6
    const left = await bench.redis.keys('ab:{*}:open');
    expect(left).toEqual([]);
    revived.abort();
    await Promise.all(handlers);
    expect(await bench.redis.keys('ab:quota:*')).toEqual([]);
  });
});
