import { describe, expect, it } from '@jest/globals';
import { freePorts } from './free-ports.ts';

describe('free ports', () => {
  it('are all different, and none that the system gives to a connection meanwhile', async () => {
    const ports = await freePorts(150);
    expect(new Set(ports).size).toBe(150);
    expect(Math.min(...ports)).toBeGreaterThanOrEqual(15_000);
    expect(Math.max(...ports)).toBeLessThan(32_768);
  });

  it('run out', async () => {
    await expect(freePorts(20_000)).rejects.toThrow('fewer than 20000 ports are free');
  });
});
