import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Jest reporter that leaves a project's counts as one JSON file in TEST_RESULTS_DIR, where
 * `npm test` adds them up. jest.preset.mjs names it only when that variable is set.
 */
export default class CountReporter {
  constructor({ rootDir }) {
    this.rootDir = rootDir;
  }

  onRunComplete(_contexts, results) {
    const { name } = JSON.parse(readFileSync(join(this.rootDir, 'package.json'), 'utf8'));
    const counts = {
      project: name,
      passed: results.numPassedTests,
      // A file that does not load has no tests to count, and must not pass for an empty one.
      failed: results.numFailedTests + results.numRuntimeErrorTestSuites,
      skipped: results.numPendingTests + results.numTodoTests,
      secondTries: results.testResults.flatMap(({ testResults }) =>
        testResults
          .filter(({ status, invocations }) => status === 'passed' && invocations > 1)
          .map(({ fullName }) => fullName),
      ),
    };
    const file = join(process.env.TEST_RESULTS_DIR, `${randomUUID()}.json`);
    writeFileSync(file, JSON.stringify(counts));
  }
}
