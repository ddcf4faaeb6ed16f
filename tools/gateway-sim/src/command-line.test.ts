import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { optionsFrom } from './command-line.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-sim-'));
});
afterEach(() => rm(folder, { recursive: true }));

it('stands on the ports of a real gateway unless told otherwise', () =>
  expect(optionsFrom([], {})).toMatchObject({
    publicPort: 8080,
    internalPort: 8081,
    adminPort: 9901,
  }));

it('takes GATEWAY_ variables, flags over them, pods by flag and from the EPP’s file', async () => {
  const file = join(folder, 'endpoints.yaml');
  await writeFile(
    file,
    'endpoints:\n- { name: enc-0, address: worker-encode, port: "8000", labels: { llm-d.ai/role: encode } }\n',
  );
  const options = optionsFrom(
    [
      '--gate',
      'legacy',
      '--endpoint',
      'dec-0=10.0.0.1:8000,decode',
      '--endpoint=dec-1=fd00::7:8000,decode',
    ],
    { GATEWAY_GATE: 'off', GATEWAY_SINGLE_LISTENER: 'true', GATEWAY_ENDPOINTS_FILE: file },
  );
  expect(options).toMatchObject({ gate: 'legacy', singleListener: true });
  expect(options.endpoints?.map(({ name, address, port }) => [name, address, port])).toEqual([
    ['enc-0', 'worker-encode', 8000],
    ['dec-0', '10.0.0.1', 8000],
    ['dec-1', 'fd00::7', 8000],
  ]);
});

it.each([
  { name: 'an unknown flag', args: ['--nope', '1'], says: 'unknown flag --nope' },
  { name: 'a malformed endpoint', args: ['--endpoint', 'x'], says: 'name=host:port,role' },
  { name: 'a bad gate', args: ['--gate', 'open'], says: 'gate' },
  { name: 'a flag without value', args: ['--gate'], says: '--gate: a value is missing' },
])('refuses $name', ({ args, says }) => expect(() => optionsFrom(args, {})).toThrow(says));
