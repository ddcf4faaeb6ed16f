import { expect, it } from '@jest/globals';
import { fuzz } from '@llm-d/soak';

// The short form of `npm run -s soak -- fuzz`; the seed changes with the day, so that other bodies are tried every day.
it('takes mutated bodies and heads without a fault of its own', async () => {
  const seed = Math.floor(Date.now() / 86_400_000);
  const { faults, requests, byStatus } = await fuzz({ count: 3000, seconds: 40, seed });
  expect({ seed, faults }).toEqual({ seed, faults: [] });
  expect(requests).toBeGreaterThan(500);
  expect(byStatus['200']).toBeGreaterThan(100);
  expect(byStatus['400']).toBeGreaterThan(100);
}, 90_000);
