import { fileURLToPath } from 'node:url';
import { launch, programNames } from './launch.mjs';
import { SetupError } from './prepare.mjs';
import { createRunner, Interrupted } from './processes.mjs';
import { runTests } from './run-tests.mjs';
import { closingLine } from './tally.mjs';

// Behind the root scripts `start`, `test`, `coordinator`, `bench` and `soak`. It runs on any Node from 18,
// before a package is installed, so nothing in this folder may import one.
const root = fileURLToPath(new URL('../../../', import.meta.url));
const context = {
  root,
  run: createRunner({ cwd: root }),
  say: (line) => console.error(`[setup] ${line}`),
};
const [name, ...args] = process.argv.slice(2);

try {
  if (name === 'test') {
    process.exitCode = await runTests(context);
  } else if (programNames.includes(name)) {
    process.exitCode = await launch(name, args, context);
  } else {
    throw new SetupError(`expected one of test, ${programNames.join(', ')}, got ${name}`);
  }
} catch (error) {
  if (error instanceof Interrupted) {
    process.exitCode = error.exitCode;
  } else {
    context.say(error instanceof SetupError ? error.message : error.stack);
    process.exitCode = 1;
    if (name === 'test') {
      console.log(closingLine({ passed: 0, failed: 1, skipped: 0 }));
    }
  }
}
