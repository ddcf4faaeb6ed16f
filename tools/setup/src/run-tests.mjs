import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCommands, hasPasswordlessSudo, readJson } from './facts.mjs';
import { prepare } from './prepare.mjs';
import { planRedis, redisCommands } from './redis-plan.mjs';
import { addUp, closingLine, exitCodeOf, tallyRun } from './tally.mjs';

const redisInstallTimeoutMs = 5 * 60_000;

const endToEnd = 'nx run @llm-d/e2e:e2e --skip-nx-cache';

/**
 * `npm test`: installs what is missing, runs every part of the root script `check` and the
 * end-to-end tests, each to its end, and prints the counts as the last line. Resolves with the
 * exit code.
 *
 * @param {{ root: string, run: Function, say: (line: string) => void }} context
 * @returns {Promise<number>}
 */
export async function runTests(context) {
  const { root, say } = context;
  const { env } = await prepare(context);
  await offerRedis({ ...context, env });

  const { scripts } = readJson(join(root, 'package.json'));
  const tallies = [];
  for (const command of [...checkCommands(scripts.check), endToEnd]) {
    say(command);
    tallies.push(await countedRun(command, { ...context, env }));
  }
  const total = addUp(tallies);
  for (const problem of total.problems) {
    console.log(`failed: ${problem}`);
  }
  console.log(closingLine(total));
  return exitCodeOf(total);
}

/** The parts of the root script `check`; nx runs its part anew, since a cached test counts nothing. */
function checkCommands(script) {
  return script
    .split(' && ')
    .map((command) => (command.startsWith('nx run-many') ? `${command} --skip-nx-cache` : command));
}

async function countedRun(command, { root, run, env }) {
  const resultsFolder = mkdtempSync(join(tmpdir(), 'test-results-'));
  // nx leaves here what became of each task of its last run.
  const lastRun = join(root, '.nx', 'cache', 'run.json');
  rmSync(lastRun, { force: true });
  try {
    const { code } = await run('/bin/sh', ['-c', command], {
      env: { ...env, TEST_RESULTS_DIR: resultsFolder },
    });
    return tallyRun({
      command,
      exitCode: code,
      tasks: readJson(lastRun)?.tasks ?? [],
      results: readdirSync(resultsFolder).map((file) => readJson(join(resultsFolder, file))),
      mustTest: command === endToEnd,
    });
  } finally {
    rmSync(resultsFolder, { recursive: true });
  }
}

/** Installs Redis where that is possible; without it there is only a warning. */
async function offerRedis({ run, say, env }) {
  const look = () => {
    const commands = findCommands(redisCommands, process.env.PATH);
    const uid = process.getuid?.();
    return planRedis({
      redisUrl: process.env.REDIS_URL,
      commands,
      uid,
      hasPasswordlessSudo: uid !== 0 && commands.has('sudo') && hasPasswordlessSudo(),
    });
  };
  const { found, advice, refresh, attempts = [] } = look();
  if (found !== undefined) {
    return;
  }
  for (const [command, ...args] of [...(refresh ? [refresh] : []), ...attempts]) {
    say(`no Redis here, installing it: ${command} ${args.join(' ')}`);
    const { code, text } = await run(command, args, {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
      output: 'capture',
      timeoutMs: redisInstallTimeoutMs,
    });
    if (look().found !== undefined) {
      return;
    }
    if (code !== 0) {
      say(`that failed: ${text.trimEnd().split('\n').at(-1)}`);
    }
  }
  say(`warning: going on without Redis, which no test needs so far (to add it: ${advice})`);
}
