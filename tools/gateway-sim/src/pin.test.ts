import { describe, expect, it } from '@jest/globals';
import { call, endpoint, peerFarm } from './testing.ts';

const { pod, gateway } = peerFarm();

/** A gateway before two prefill pods and one decode pod, and the calls that each of them got. */
async function threePods() {
  const pods = await Promise.all([pod(), pod(), pod()]);
  const [first, second, decode] = pods;
  const { internalUrl, publicUrl, legs } = await gateway({
    endpoints: [
      endpoint('prefill-0', 'prefill', first?.port ?? 0),
      endpoint('prefill-1', 'prefill', second?.port ?? 0),
      endpoint('decode-0', 'decode', decode?.port ?? 0),
    ],
  });
  const counts = (): number[] => pods.map(({ received }) => received.length);
  return { internalUrl, publicUrl, legs, counts, ports: pods.map(({ port }) => port) };
}

const prefill = { 'epp-profile': 'prefill' };

describe('a reservation', () => {
  it('is answered with the pod that would be chosen, and reaches none', async () => {
    const { internalUrl, counts, ports, legs } = await threePods();
    const headers = { ...prefill, prefer: 'reserve-endpoint', 'x-request-id': 'r-1' };
    const answer = await call(internalUrl, headers);
    expect(answer).toMatchObject({ status: 204, text: '' });
    const reserved = answer.headers['x-llm-d-reserved-host-port'];
    expect(ports.slice(0, 2).map((port) => `127.0.0.1:${port}`)).toContain(reserved);
    expect(counts()).toEqual([0, 0, 0]);
    expect(legs('r-1')[0]).toMatchObject({ profile: 'prefill', status: 204, upstream: reserved });
  });

  it('is 429 when the role has no pod', async () => {
    const { port } = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', port)] });
    const answer = await call(internalUrl, { ...prefill, prefer: 'reserve-endpoint' });
    expect(answer.status).toBe(429);
    expect(answer.headers['x-llm-d-reserved-host-port']).toBeUndefined();
  });
});

describe('a pin', () => {
  it.each(['x-prefill-pin-host-port', 'x-llm-d-pin-host-port'])(
    'in %s sends prefill to that pod every time',
    async (header) => {
      const { internalUrl, counts, ports } = await threePods();
      for (let i = 0; i < 4; i++) {
        const answer = await call(internalUrl, { ...prefill, [header]: `127.0.0.1:${ports[1]}` });
        expect(answer.status).toBe(200);
      }
      expect(counts()).toEqual([0, 4, 0]);
    },
  );

  it.each([
    { name: 'a pod that nobody knows', at: () => '127.0.0.1:1' },
    { name: 'a pod of another role', at: (ports: number[]) => `127.0.0.1:${ports[2]}` },
    { name: 'nothing readable', at: () => '' },
  ])('to $name is 503', async ({ at }) => {
    const { internalUrl, counts, ports } = await threePods();
    const headers = { ...prefill, 'x-prefill-pin-host-port': at(ports) };
    expect((await call(internalUrl, headers)).status).toBe(503);
    expect(counts()).toEqual([0, 0, 0]);
  });

  it('means nothing on other phases', async () => {
    const { internalUrl, counts, ports } = await threePods();
    const pin = `127.0.0.1:${ports[0]}`;
    const headers = { 'epp-profile': 'decode', 'x-prefill-pin-host-port': pin };
    expect((await call(internalUrl, headers)).status).toBe(200);
    expect(counts()).toEqual([0, 0, 1]);
  });
});
