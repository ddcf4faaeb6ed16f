/** Targets whose failure the reporter counts test by test; every other failed target counts as one. */
const testTargets = new Set(['test', 'e2e']);

/**
 * Counts what one command did.
 *
 * @param {object} run
 * @param {string} run.command as shown to a person
 * @param {number} run.exitCode
 * @param {{ projectName: string, target: string, status: number }[]} run.tasks the nx tasks it ran
 * @param {{ project: string, passed: number, failed: number, skipped: number,
 *   secondTries?: string[] }[]} run.results what
 *   the reporter wrote, one entry per Jest run
 * @param {boolean} [run.mustTest] a run without a single test is a failure, not a success
 * @returns {Tally}
 */
export function tallyRun({ command, exitCode, tasks, results, mustTest = false }) {
  const tally = { passed: 0, failed: 0, skipped: 0, problems: [], secondTries: [] };
  for (const { project, passed, failed, skipped, secondTries = [] } of results) {
    tally.passed += passed;
    tally.failed += failed;
    tally.skipped += skipped;
    tally.secondTries.push(...secondTries.map((test) => `${project}: ${test}`));
  }
  const failedTests = new Set(results.filter(({ failed }) => failed > 0).map((r) => r.project));
  for (const { projectName, target } of tasks.filter(({ status }) => status !== 0)) {
    tally.problems.push(`${projectName}:${target}`);
    if (!testTargets.has(target) || !failedTests.has(projectName)) {
      tally.failed += 1;
    }
  }
  if (exitCode !== 0 && tally.failed === 0) {
    tally.problems.push(command);
    tally.failed += 1;
  }
  if (mustTest && tally.passed + tally.failed === 0) {
    tally.problems.push(`${command}: no test ran`);
    tally.failed += 1;
  }
  return tally;
}

/** Adds up what several commands did. */
export function addUp(tallies) {
  return tallies.reduce((sum, tally) => ({
    passed: sum.passed + tally.passed,
    failed: sum.failed + tally.failed,
    skipped: sum.skipped + tally.skipped,
    problems: [...sum.problems, ...tally.problems],
    secondTries: [...sum.secondTries, ...tally.secondTries],
  }));
}

/** The last line of `npm test`. */
export function closingLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** A run in which nothing was tested is not a success. */
export function exitCodeOf({ passed, failed }) {
  return failed === 0 && passed > 0 ? 0 : 1;
}

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed tests, and targets that are no tests
 * @property {number} skipped
 * @property {string[]} problems names of what failed
 * @property {string[]} secondTries names of the tests that passed at the second try only
 */
