import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'count-reporter-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

it('writes what a real Jest run counted, a file that does not load as a failure', () => {
  const tests = {
    'counted.test.js': `
      test('passes', () => {});
      let tries = 0;
      test('passes late', () => { if (tries++ === 0) throw new Error('the first time'); });
      test('fails', () => { throw new Error('on purpose'); });
      test.skip('skipped', () => {});
      test.todo('to do');
    `,
    'broken.test.js': `throw new Error('does not load');`,
  };
  for (const [name, text] of Object.entries(tests)) {
    writeFileSync(join(folder, name), text);
  }
  const [reporter, secondTry] = ['count-reporter.mjs', 'second-try.mjs'].map((file) =>
    join(import.meta.dirname, file),
  );
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({
      name: '@llm-d/sample',
      jest: { reporters: [reporter], setupFilesAfterEnv: [secondTry], transform: {} },
    }),
  );
  const results = join(folder, 'results');
  mkdirSync(results);

  const jest = join(import.meta.dirname, '../../../node_modules/jest/bin/jest.js');
  const { status } = spawnSync(process.execPath, [jest, '--watchman=false'], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      TEST_RESULTS_DIR: results,
      NODE_OPTIONS: '--experimental-vm-modules',
    },
  });

  expect(status).toBe(1);
  expect(readdirSync(results).map((file) => JSON.parse(readFileSync(join(results, file))))).toEqual(
    [
      {
        project: '@llm-d/sample',
        passed: 2,
        failed: 2,
        skipped: 2,
        secondTries: ['passes late'],
      },
    ],
  );
});
