import { expect, it } from '@jest/globals';
import { asyncSoak } from '@llm-d/soak';

// A short one; `npm run -s soak -- async` is a minute of it, with `--full` five.
it('loses no queued request and runs none after its outcome, whatever dies (I1 to I8)', async () => {
  const { faults, kills, requests, outcomes } = await asyncSoak('ci');
  expect(faults).toEqual([]);
  expect(kills.workers).toBeGreaterThan(0);
  expect(kills.apis).toBeGreaterThan(0);
  expect(requests).toBeGreaterThan(50);
  expect(outcomes['200']).toBeGreaterThan(20);
}, 120_000);
