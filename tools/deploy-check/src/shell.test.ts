import { spawnSync } from 'node:child_process';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { textOf } from './deploy-files.ts';
import { programPath } from './programs.ts';

let program: string;

beforeAll(async () => {
  program = await programPath('shellcheck');
}, 180_000);

/** What shellcheck has to say about a script, empty when nothing. */
function problemsOf(script: string): string {
  const { status, stdout, stderr } = spawnSync(program, ['--format=gcc', '-'], {
    input: script,
    encoding: 'utf8',
    timeout: 20_000,
  });
  // 0: nothing, 1: something; anything else is a failure of its own.
  expect({ stderr, isChecked: status === 0 || status === 1 }).toEqual({
    stderr: '',
    isChecked: true,
  });
  return stdout;
}

describe('shellcheck', () => {
  it.each([
    ['a variable without quotes', '#!/bin/sh\nrm $1\n', /SC2086/],
    ['a loop that does not end', '#!/bin/sh\nfor i in 1 2; do echo "$i"\n', /done/],
    ['what only bash has', '#!/bin/sh\n[[ "$1" = a ]] && echo b\n', /SC3010|SC2039/],
  ])('refuses %s', (_name, script, reason) => {
    expect(problemsOf(script)).toMatch(reason);
  });

  it('accepts deploy/docker/production-tree.sh', () => {
    expect(problemsOf(textOf('deploy/docker/production-tree.sh'))).toBe('');
  });
});
