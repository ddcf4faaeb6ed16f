import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { crowdedUploads } from './crowded-uploads.ts';
import { slowReaders } from './slow-readers.ts';

const megabyte = 1024 * 1024;

/** The most that a socket of this system buffers in one direction. */
function mostBuffered(direction: 'rmem' | 'wmem'): number {
  return Number(readFileSync(`/proc/sys/net/ipv4/tcp_${direction}`, 'utf8').split(/\s+/)[2]);
}

it('C09: slow readers hold their worker back, and cost little memory and nobody else time', async () => {
  const readers = 50;
  // The system fills the buffers of both connections; over the loopback it makes them as large as they may be.
  const systemBytes = 2 * (mostBuffered('rmem') + mostBuffered('wmem'));
  const answerBytes = systemBytes + 100 * megabyte;
  const figures = await slowReaders({ readers, answerBytes, seconds: 3 });
  expect(figures.broken).toBe(0);
  expect(figures.mostAheadBytes).toBeLessThan(systemBytes + megabyte);
  // Chunks that are gone stay until the next collection, which comes when the heap has tripled.
  expect(figures.grownBytes).toBeLessThan(256 * megabyte);
  expect(figures.slowestOtherMs).toBeLessThan(1_000);
});

it('uploads together hold no more than they may; who comes back is served', async () => {
  const figures = await crowdedUploads({ uploads: 12, bodyMegabytes: 16, heldMegabytes: 32 });
  expect(figures).toMatchObject({ served: 12, others: [] });
  expect(figures.refusals).toBeGreaterThan(0);
  expect(figures.mostAtOnce).toBeLessThanOrEqual(2);
  // Bodies that were let go are collected late; memory.ts shows that they are.
  expect(figures.grownBytes).toBeLessThan(512 * megabyte);
});
