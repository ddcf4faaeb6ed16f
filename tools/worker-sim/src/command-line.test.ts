import { expect, it } from '@jest/globals';
import { optionsFrom } from './command-line.ts';

it('stands on the ports of a real pod unless told otherwise', () => {
  const { options } = optionsFrom([], {});
  expect(options[0]).toMatchObject({
    role: 'decode',
    host: '0.0.0.0',
    port: 8000,
    sidePortKv: 5600,
    sidePortEc: 5610,
    bootstrapPort: 8998,
  });
  expect(options[0]?.podIp).not.toBe('0.0.0.0');
});

it('takes SIM_ variables, and flags over them', () => {
  const { options } = optionsFrom(
    ['--role', 'prefill', '--kv-strict=false', '--host', '127.0.0.1'],
    {
      SIM_ROLE: 'encode',
      SIM_KV_LEASE_MS: '250',
      SIM_MODELS: 'a,b=a',
      SIM_EC_CONNECTOR: 'none',
      SIM_POD_NAME: '',
    },
  );
  expect(options[0]).toMatchObject({
    role: 'prefill',
    kvStrict: false,
    kvLeaseMs: 250,
    models: ['a', 'b=a'],
    ecConnector: 'none',
    podIp: '127.0.0.1',
  });
});

it('several pods take consecutive ports and names', () => {
  const { options } = optionsFrom(
    ['--pods', '2', '--pod-name', 'd', '--port', '9000', '--side-port-ec', '0'],
    {},
  );
  expect(
    options.map(({ port, sidePortKv, sidePortEc, podName }) => [
      port,
      sidePortKv,
      sidePortEc,
      podName,
    ]),
  ).toEqual([
    [9000, 5600, 0, 'd-0'],
    [9001, 5601, 0, 'd-1'],
  ]);
});

it.each([
  { name: 'an unknown flag', args: ['--nope', '1'], says: 'unknown flag --nope' },
  { name: 'a flag without value', args: ['--role'], says: '--role: a value is missing' },
  { name: 'a bad value', args: ['--port', 'x'], says: 'port' },
  { name: 'a bad count', args: ['--pods', '0'], says: '--pods' },
])('refuses $name', ({ args, says }) => expect(() => optionsFrom(args, {})).toThrow(says));
