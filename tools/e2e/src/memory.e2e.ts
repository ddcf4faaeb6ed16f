import { expect, it } from '@jest/globals';
import { crowdedUploads } from './crowded-uploads.ts';
import { inlineImages } from './inline-images.ts';
import { hasNamespace, smallBuffers } from './namespace.ts';
import { runRig } from './run-rig.ts';
import { type SlowReadersFigures } from './slow-readers.ts';

const megabyte = 1024 * 1024;

(hasNamespace ? it : it.skip)(
  'C09: 200 slow readers of 100 MB hold their worker back, and cost little memory and nobody else time',
  async () => {
    const options = { readers: 200, answerBytes: 100 * megabyte, seconds: 3 };
    const run = runRig('slow-readers-rig.ts', options, smallBuffers);
    const figures = (await run) as SlowReadersFigures;
    expect(figures.broken).toBe(0);
    // Beyond it lies what the worker and the coordinator are just writing.
    expect(figures.mostAheadBytes).toBeLessThan(figures.systemBytes + 384 * 1024);
    // Chunks that are gone stay until the next collection, which comes when the heap has tripled.
    expect(figures.grownBytes).toBeLessThan(256 * megabyte);
    expect(figures.slowestOtherMs).toBeLessThan(1_000);
  },
);

it('64 uploads of 64 MB at once are taken as far as memory is meant for them, the rest before it is sent', async () => {
  const options = { uploads: 64, bodyMegabytes: 64, heldMegabytes: 128, comesBack: false };
  const figures = await crowdedUploads(options);
  expect(figures).toMatchObject({ served: 64 - figures.refusals, others: [] });
  expect(figures.refusals).toBeGreaterThan(32);
  expect(figures.mostAtOnce).toBeLessThanOrEqual(2);
  expect(figures.grownBytes).toBeLessThan(512 * megabyte);
});

it('uploads together hold no more than they may; who comes back is served', async () => {
  const options = { uploads: 12, bodyMegabytes: 16, heldMegabytes: 32, comesBack: true };
  const figures = await crowdedUploads(options);
  expect(figures).toMatchObject({ served: 12, others: [] });
  expect(figures.refusals).toBeGreaterThan(0);
  expect(figures.mostAtOnce).toBeLessThanOrEqual(2);
  // Bodies that were let go are collected late; memory.ts shows that they are.
  expect(figures.grownBytes).toBeLessThan(512 * megabyte);
});

it('C33: inlined images of 40 MB at once cost at most three times their size', async () => {
  const [requests, bodyMegabytes] = [6, 40];
  const figures = await inlineImages({ requests, bodyMegabytes });
  expect(figures.statuses).toEqual(Array.from({ length: requests }, () => 200));
  expect(figures.grownBytes).toBeLessThan(3 * requests * bodyMegabytes * megabyte);
});
