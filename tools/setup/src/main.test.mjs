import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const coordinatorBuild = 'nx run-many -t build -p @llm-d/coordinator';
const stackBuild = `${coordinatorBuild},@llm-d/render-shim,@llm-d/media-fetcher,@llm-d/async-broker,@llm-d/gateway-sim,@llm-d/worker-sim,@llm-d/local-stack`;
const install =
  'npm ci --include=dev --include=optional --ignore-scripts --no-audit --no-fund --loglevel=error';

let root;
let bin;
let log;

// A fresh clone as far as this package can tell, on a machine with the programs of stub-programs.mjs.
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'setup-test-'));
  bin = join(root, 'bin');
  log = join(root, 'calls.log');
  const source = join(root, 'tools/setup/src');
  cpSync(import.meta.dirname, source, { recursive: true });
  mkdirSync(bin);
  for (const name of ['npm', 'sudo', 'apt-get']) {
    const script = `#!/bin/sh\nexec ${process.execPath} ${source}/stub-programs.mjs ${name} "$@"\n`;
    writeFileSync(join(bin, name), script, { mode: 0o755 });
  }
  const manifest = {
    type: 'module',
    engines: { node: '>=22.19' },
    scripts: { check: 'nx sync:check && prettier --check . && nx run-many -t lint build test' },
  };
  writeFileSync(join(root, 'package.json'), JSON.stringify(manifest));
  const lock = { packages: { '': {}, 'node_modules/nx': { version: '23.2.1' } } };
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify(lock));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

/** Starts the helper; `exit` resolves with its code, `stdout` and `stderr` grow while it runs. */
function startSetup(args, env = {}) {
  const child = spawn(process.execPath, [join(root, 'tools/setup/src/main.mjs'), ...args], {
    cwd: tmpdir(),
    env: {
      PATH: bin,
      STUB_BIN: bin,
      STUB_LOG: log,
      STUB_TASKS: '[]',
      STUB_COUNTS: JSON.stringify({ project: 'steps', passed: 3, failed: 0, skipped: 0 }),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const run = { child, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk) => (run.stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk) => (run.stderr += chunk));
  run.exit = once(child, 'close').then(([code]) => code);
  return run;
}

async function setup(args, env) {
  const run = startSetup(args, env);
  return { code: await run.exit, stdout: run.stdout, stderr: run.stderr };
}

/** The programs called so far, one command line each; sudo and its own question left out. */
const calls = () =>
  readFileSync(log, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/^sudo -n /, ''))
    .filter((line) => line !== 'true');

async function output(run, stream, text) {
  while (!run[stream].includes(text)) {
    await once(run.child[stream], 'data');
  }
}

describe('npm start', () => {
  it('installs, builds and runs the stack, and leaves stdout to it', async () => {
    const { code, stdout, stderr } = await setup(['start', '--once', '--json']);

    expect({ code, stdout: JSON.parse(stdout) }).toEqual({
      code: 0,
      stdout: { args: ['--once', '--json'], node: join(root, 'node_modules/.bin/node') },
    });
    expect(calls()).toEqual([install, stackBuild]);
    expect(stderr).toMatch(/no Redis here, and none needed; it would add .*apt-get install/);
    expect(stderr).not.toContain('noise of the build');
  });

  it('installs nothing the second time', async () => {
    await setup(['start']);
    await setup(['start']);
    expect(calls()).toEqual([install, stackBuild, stackBuild]);
  });

  it('passes on the exit code of the stack', async () => {
    expect((await setup(['start', '--fail'])).code).toBe(7);
  });

  it('says why npm failed and stops', async () => {
    const { code, stdout, stderr } = await setup(['start'], { STUB_NPM: 'fails' });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('npm error: no such package');
    expect(calls()).toEqual([install]);
  });

  it('passes a signal on once and waits for the stack to end', async () => {
    const run = startSetup(['start', '--wait']);
    await output(run, 'stdout', 'waiting\n');
    run.child.kill('SIGTERM');
    run.child.kill('SIGTERM');
    expect(await run.exit).toBe(3);
    expect(run.stdout.match(/ended by SIGTERM/g)).toHaveLength(1);
  });

  it('ends on a signal during the install', async () => {
    const run = startSetup(['start'], { STUB_NPM: 'hangs' });
    await output(run, 'stderr', 'running npm ci');
    run.child.kill('SIGINT');
    expect(await run.exit).toBe(130);
    expect(existsSync(join(root, 'tools/local-stack'))).toBe(false);
  });
});

describe('npm run coordinator', () => {
  it('builds only what was never built', async () => {
    await setup(['coordinator', '--config', 'a.yaml']);
    const { stdout } = await setup(['coordinator', '--config', 'b.yaml']);
    expect(JSON.parse(stdout).args).toEqual(['--config', 'b.yaml']);
    expect(calls()).toEqual([install, coordinatorBuild]);
  });
});

describe('npm test', () => {
  it('installs npm packages, Redis and other programs, runs every check and closes with the counts', async () => {
    const { code, stdout, stderr } = await setup(['test']);

    expect(calls()).toEqual([
      install,
      'apt-get update',
      expect.stringMatching(/^apt-get .*install -y --no-install-recommends redis-server$/),
      // Only Linux has the network namespaces that it is for.
      ...(process.platform === 'linux'
        ? ['apt-get update', expect.stringMatching(/^apt-get .*install -y .* iproute2$/)]
        : []),
      'apt-get update',
      expect.stringMatching(/^apt-get .*install -y .* python3-pip$/),
      'nx sync:check',
      'prettier --check .',
      'nx run-many -t lint build test --skip-nx-cache',
      'nx run @llm-d/e2e:e2e --skip-nx-cache',
    ]);
    expect(stderr).toContain('no Redis here, installing it');
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('5 passed, 0 failed, 1 skipped');
    expect(code).toBe(0);
  });

  it('goes on with a warning when Redis cannot be installed', async () => {
    const { code, stderr } = await setup(['test'], { STUB_APT: 'fails' });
    expect(stderr).toContain('that failed: E: no network');
    expect(stderr).toContain('warning: going on without Redis');
    expect(code).toBe(0);
  });

  it('runs everything to its end and names what failed', async () => {
    const { code, stdout } = await setup(['test'], {
      STUB_TASKS: JSON.stringify([
        { projectName: 'steps', target: 'lint', status: 1 },
        { projectName: 'steps', target: 'test', status: 1 },
      ]),
      STUB_COUNTS: JSON.stringify({ project: 'steps', passed: 3, failed: 2, skipped: 0 }),
    });
    expect(stdout).toBe('failed: steps:lint\nfailed: steps:test\n5 passed, 3 failed, 1 skipped\n');
    expect(code).toBe(1);
  });

  it('closes with a count when nothing could be run', async () => {
    const { code, stdout } = await setup(['test'], { STUB_NPM: 'fails' });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '0 passed, 1 failed\n' });
  });
});

it('names what it can run when asked for something else', async () => {
  const { code, stderr } = await setup(['tests']);
  expect(stderr).toContain('expected one of test, start, bench, soak, coordinator, got tests');
  expect(code).toBe(1);
});
