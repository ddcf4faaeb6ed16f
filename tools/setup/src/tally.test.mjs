import { describe, expect, it } from '@jest/globals';
import { addUp, closingLine, exitCodeOf, tallyRun } from './tally.mjs';

const command = 'nx run-many -t lint build test';
const counts = (project, passed, failed = 0, skipped = 0) => ({ project, passed, failed, skipped });
const task = (projectName, target, status = 0) => ({ projectName, target, status });

describe('tallyRun', () => {
  it.each([
    [
      'adds up the tests of all projects',
      { exitCode: 0, tasks: [task('a', 'test')], results: [counts('a', 3, 0, 1), counts('b', 4)] },
      { passed: 7, failed: 0, skipped: 1, problems: [] },
    ],
    [
      'counts failing tests one by one',
      { exitCode: 1, tasks: [task('a', 'test', 1)], results: [counts('a', 3, 2)] },
      { passed: 3, failed: 2, skipped: 0, problems: ['a:test'] },
    ],
    [
      'counts a test target that failed without a failing test as one',
      { exitCode: 1, tasks: [task('a', 'test', 1)], results: [counts('a', 3), counts('b', 1)] },
      { passed: 4, failed: 1, skipped: 0, problems: ['a:test'] },
    ],
    [
      'counts each other failing target as one',
      {
        exitCode: 1,
        tasks: [task('a', 'lint', 1), task('a', 'test', 1), task('b', 'build', 1)],
        results: [counts('a', 3, 2)],
      },
      { passed: 3, failed: 4, skipped: 0, problems: ['a:lint', 'a:test', 'b:build'] },
    ],
    [
      'counts a command that failed before any target as one',
      { exitCode: 1, tasks: [], results: [] },
      { passed: 0, failed: 1, skipped: 0, problems: [command] },
    ],
    [
      'names the tests that passed at the second try only',
      {
        exitCode: 0,
        tasks: [task('a', 'test')],
        results: [{ ...counts('a', 3), secondTries: ['late'] }],
      },
      { passed: 3, failed: 0, skipped: 0, problems: [], secondTries: ['a: late'] },
    ],
    [
      'takes a run without tests for a success where none are expected',
      { exitCode: 0, tasks: [], results: [] },
      { passed: 0, failed: 0, skipped: 0, problems: [] },
    ],
    [
      'takes a run without tests for a failure where tests are the point',
      { exitCode: 0, tasks: [task('a', 'e2e')], results: [], mustTest: true },
      { passed: 0, failed: 1, skipped: 0, problems: [`${command}: no test ran`] },
    ],
    [
      'takes a run that skipped every test for one without tests',
      { exitCode: 0, tasks: [], results: [counts('a', 0, 0, 5)], mustTest: true },
      { passed: 0, failed: 1, skipped: 5, problems: [`${command}: no test ran`] },
    ],
  ])('%s', (_name, run, expected) => {
    expect(tallyRun({ command, ...run })).toEqual({ secondTries: [], ...expected });
  });
});

describe('the total', () => {
  it('adds up commands', () => {
    const one = { passed: 1, failed: 2, skipped: 3, problems: ['x'], secondTries: ['v'] };
    const other = { passed: 10, failed: 20, skipped: 30, problems: ['y'], secondTries: ['w'] };
    expect(addUp([one, other])).toEqual({
      passed: 11,
      failed: 22,
      skipped: 33,
      problems: ['x', 'y'],
      secondTries: ['v', 'w'],
    });
  });

  it.each([
    ['5 passed, 0 failed', 0, { passed: 5, failed: 0, skipped: 0 }],
    ['5 passed, 0 failed, 2 skipped', 0, { passed: 5, failed: 0, skipped: 2 }],
    ['5 passed, 1 failed', 1, { passed: 5, failed: 1, skipped: 0 }],
    ['0 passed, 0 failed', 1, { passed: 0, failed: 0, skipped: 0 }],
  ])('closes with "%s" and exit code %d', (line, exitCode, total) => {
    expect(closingLine(total)).toBe(line);
    expect(exitCodeOf(total)).toBe(exitCode);
  });
});
