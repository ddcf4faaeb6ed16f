import { expect, it } from '@jest/globals';
import { EndpointTable } from './endpoints.ts';
import { endpoint, peerFarm } from './testing.ts';

const { pod, gateway } = peerFarm();

it('two failed checks take a pod out, one good one brings it back', () => {
  const table = new EndpointTable([endpoint('a', 'decode', 1)], 5000);
  const [only] = table.all;
  if (!only) throw new Error('no endpoint');
  const usableAfter = (isGood: boolean): number => {
    table.checked(only, isGood);
    return table.usable().length;
  };
  expect([false, false, true, false, false].map(usableAfter)).toEqual([1, 0, 1, 1, 0]);
});

it('a pod that refused a connection is out for the time of the option', () => {
  const table = new EndpointTable([endpoint('a', 'decode', 1)], 0);
  const long = new EndpointTable([endpoint('a', 'decode', 1)], 60_000);
  for (const each of [table, long]) for (const pod of each.all) each.eject(pod);
  expect([table.usable().length, long.usable().length]).toEqual([1, 0]);
});

it('checks run by themselves: a dead pod leaves the list, a live one stays', async () => {
  const live = await pod();
  const { adminUrl } = await gateway({
    healthIntervalMs: 5,
    endpoints: [endpoint('live', 'decode', live.port), endpoint('dead', 'decode', 9)],
  });
  const healthy = async (): Promise<unknown> => {
    const answer = await fetch(`${adminUrl}/endpoints`);
    const { endpoints } = (await answer.json()) as {
      endpoints: { name: string; isHealthy: boolean }[];
    };
    return endpoints.filter(({ isHealthy }) => isHealthy).map(({ name }) => name);
  };
  while (JSON.stringify(await healthy()) !== '["live"]') await new Promise(setImmediate);
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  expect(metrics).toContain('gateway_sim_endpoint_healthy{pod="dead"} 0');
});
