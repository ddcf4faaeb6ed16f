import { describe, expect, it } from '@jest/globals';
import { leftovers, type Rest } from './abort-rest.ts';
import { AbortTimes } from './abort-times.ts';
import { type ProxiedCall } from './proxy.ts';

const leg = (requestId: string, phase: string | undefined, sent = '{}'): ProxiedCall => ({
  ...{ path: '/', requestId, phase },
  ...{ sent: Buffer.from(sent), answered: Buffer.alloc(0) },
});

describe('the times of aborts', () => {
  it('are those from the close of the client to the close of each of its legs', () => {
    const times = new AbortTimes();
    times.ended(leg('a', 'encode'), { at: performance.now(), isCut: false });
    times.left('a');
    const leftAt = performance.now();
    times.ended(leg('a', undefined), { at: leftAt + 10, isCut: true });
    times.ended(leg('a', 'prefill'), { at: leftAt + 300, isCut: false });
    times.ended(leg('other', 'prefill'), { at: leftAt + 900, isCut: true });
    const { p50Ms, p99Ms, maxMs, ...counts } = times.summary();
    expect(counts).toEqual({ legs: 2, cut: 1, byPhase: { render: 1, prefill: 1 }, releases: 0 });
    expect(p50Ms).toBe(maxMs);
    expect(p99Ms).toBeGreaterThanOrEqual(300);
  });

  it.each(['max_tokens', 'max_completion_tokens', 'max_output_tokens'])(
    'leave out a decode leg of one token by %s, which gives blocks back',
    (name) => {
      const times = new AbortTimes();
      times.left('a');
      const end = { at: performance.now(), isCut: false };
      times.ended(leg('a', 'decode', `{"model":"m","${name}":1}`), end);
      times.ended(leg('a', 'decode', `{"model":"m","${name}":16}`), end);
      times.ended(leg('a', 'prefill', `{"model":"m","${name}":1}`), end);
      expect(times.summary()).toMatchObject({ legs: 2, releases: 1 });
    },
  );

  it('are zero when no leg was open', () => {
    expect(new AbortTimes().summary()).toMatchObject({ legs: 0, p99Ms: 0, maxMs: 0 });
  });
});

describe('what is left', () => {
  const ended = { offered: 3, used: 1, released: 1, expired: 1 };
  const rest: Rest = {
    ...{ kv: ended, ec: ended, permits: { step_running: 0 }, running: 0, openLegs: 0, sockets: 0 },
    leases: { held: 0, pulled: 2, released: 0, expired: 1, pulledAgain: 0, pulledLate: 0 },
  };

  it('is nothing when everything has an end', () => {
    expect(leftovers(rest)).toEqual([]);
    expect(leftovers({ ...rest, sockets: undefined })).toEqual([]);
  });

  it.each<[string, Partial<Rest>]>([
    ['KV hand-offs without an outcome: 1', { kv: { ...ended, offered: 4 } }],
    ['EC hand-offs without an outcome: -1', { ec: { ...ended, used: 2 } }],
    ['leases held by prefill workers: 2', { leases: { ...rest.leases, held: 2 } }],
    ['step_running: 1', { permits: { step_running: 1 } }],
    ['requests in workers: 1', { running: 1 }],
    ['legs open: 1', { openLegs: 1 }],
    ['sockets open: 5', { sockets: 5 }],
  ])('says %s', (fault, change) => {
    expect(leftovers({ ...rest, ...change })).toEqual([fault]);
  });
});
