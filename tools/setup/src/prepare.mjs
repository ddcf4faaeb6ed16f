import { existsSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { machine, nodeVersion, readJson } from './facts.mjs';
import { installArguments, installReason } from './install-plan.mjs';
import { planNode } from './node-plan.mjs';

/** A problem that is the machine's or the user's: the message is all a person needs to see. */
export class SetupError extends Error {}

/**
 * Installs the npm packages if they are missing or stale and returns what later commands need:
 * the Node program and the environment with that Node and the project's tools first on the PATH.
 * Throws a `SetupError` when it cannot.
 *
 * @param {{ root: string, run: Function, say: (line: string) => void }} context
 * @returns {Promise<{ node: string, env: NodeJS.ProcessEnv }>}
 */
export async function prepare({ root, run, say }) {
  const binaries = join(root, 'node_modules', '.bin');
  const env = {
    ...process.env,
    // The system Node comes last for the case that it was started by its path.
    PATH: [binaries, process.env.PATH, dirname(process.execPath)].join(delimiter),
    // A daemon would outlive the command; a terminal interface would hide what failed.
    NX_DAEMON: 'false',
    NX_TUI: 'false',
  };

  const reason = installReason(
    readJson(join(root, 'package-lock.json')),
    readJson(join(root, 'node_modules', '.package-lock.json')),
    machine(),
  );
  if (reason !== undefined) {
    say(`${reason}: running npm ci, which takes a minute`);
    await runQuietly({ run, say, env }, 'npm', installArguments);
  }

  const { platform, arch } = process;
  const packageName = `node-${platform}-${arch}`;
  const bundled = nodeVersion(join(root, 'node_modules', packageName, 'bin', 'node'));
  const plan = planNode({
    engines: readJson(join(root, 'package.json')).engines.node,
    bundled,
    system: process.versions.node,
  });
  if (plan.problem !== undefined) {
    throw new SetupError(plan.problem);
  }
  const link = join(binaries, 'node');
  if (plan.use === 'system') {
    // One that does not start would hide the system's from every npm script.
    rmSync(link, { force: true });
    return { node: process.execPath, env };
  }
  if (!existsSync(link)) {
    // npm 10 loses the link: it drops the Node package for the other processor, and with it
    // everything in .bin that has the same name.
    symlinkSync(join('..', packageName, 'bin', 'node'), link);
  }
  return { node: link, env };
}

/** Runs a program whose output matters only when it fails; throws a `SetupError` then. */
export async function runQuietly({ run, say, env }, command, args) {
  const { code, text } = await run(command, args, { env, output: 'capture' });
  if (code !== 0) {
    say(text.trimEnd());
    throw new SetupError(`${command} ${args.join(' ')} failed with exit code ${code}`);
  }
}
