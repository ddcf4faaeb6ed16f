import { expect, it } from '@jest/globals';
import { aborts } from '@llm-d/soak';

const count = 200;
/** Other programs run beside the tests; the long form holds to the 100 ms of a machine of its own. */
const limitMs = 2_000;

// The short form of `npm run -s soak -- aborts`.
it(`leaves nothing behind after ${count} requests whose clients leave at any moment`, async () => {
  const report = await aborts({ count, seconds: 60, seed: 1, clients: 24, limitMs });
  expect(report.faults).toEqual([]);
  // What happened is what the test is about.
  const { kv, ec, served, aborted, requests } = report;
  expect(served + aborted).toBe(requests);
  expect(requests).toBeGreaterThan(count);
  expect(Math.min(served, aborted, kv.used, kv.released, ec.used)).toBeGreaterThan(0);
  expect(report.aborts.cut).toBeGreaterThan(0);
}, 120_000);
