import { expect, it } from '@jest/globals';
import { openOf, runAbortSoak } from './abort-soak.ts';

const requests = 300;
const limitMs = 240_000;

// The long form: node --conditions=@llm-d/source tools/e2e/src/soak-aborts.ts --count 10000
it(
  `leaves nothing behind after ${requests} requests whose clients leave at any moment`,
  async () => {
    const report = await runAbortSoak({ count: requests, clients: 16 });
    const { kv, ec, leases, served, aborted } = report;
    // What happened is what the test is about.
    expect(Math.min(served, aborted, kv.used, kv.released, ec.used)).toBeGreaterThan(0);
    expect(report.surprises).toEqual([]);
    expect(served + aborted).toBe(requests);

    expect({ kv: openOf(kv), ec: openOf(ec) }).toEqual({ kv: 0, ec: 0 });
    expect(leases).toMatchObject({ held: 0, pulledAgain: 0, pulledLate: 0 });
    // Every set that a coordinator knew of was fetched or freed unless it says that it left it to the lease.
    expect(leases.pulled + leases.released + report.cutOnTheWay).toBe(kv.used + kv.released);
    expect(report).toMatchObject({ running: 0 });
    expect(report.sockets ?? 0).toBe(0);
  },
  limitMs,
);
