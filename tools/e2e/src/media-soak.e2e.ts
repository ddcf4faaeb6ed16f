import { expect, it } from '@jest/globals';
import { mediaSoak } from '@llm-d/soak';

it('a fetcher survives hostile origins within its memory', async () => {
  const { faults, requests } = await mediaSoak({ seconds: 5, seed: 5, rate: 60 });
  expect(faults).toEqual([]);
  expect(requests).toBeGreaterThan(200);
}, 60_000);
