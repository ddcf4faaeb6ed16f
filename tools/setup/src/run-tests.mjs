import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCommands, hasPasswordlessSudo, readJson } from './facts.mjs';
import { prepare } from './prepare.mjs';
import { planRedis, redisCommands } from './redis-plan.mjs';
import { addUp, closingLine, exitCodeOf, tallyRun } from './tally.mjs';
import { planTool, toolCommands, tools } from './tool-plan.mjs';

const installTimeoutMs = 5 * 60_000;

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
  await offerPrograms({ ...context, env });

  const { scripts } = readJson(join(root, 'package.json'));
  const tallies = [];
  for (const command of [...checkCommands(scripts.check), endToEnd]) {
    say(command);
    tallies.push(await countedRun(command, { ...context, env }));
  }
  const total = addUp(tallies);
  for (const test of total.secondTries) {
    console.log(`passed at the second try only: ${test}`);
  }
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

/** Installs what tests need where that is possible; without it there is only a warning. */
async function offerPrograms(context) {
  await offer(context, {
    name: 'Redis',
    look: (facts) =>
      planRedis({
        ...facts,
        redisUrl: process.env.REDIS_URL,
        commands: findCommands(redisCommands, process.env.PATH),
      }),
  });
  for (const name of Object.keys(tools)) {
    await offer(context, {
      name,
      look: (facts) =>
        planTool(name, {
          ...facts,
          platform: process.platform,
          commands: findCommands(toolCommands, process.env.PATH),
        }),
    });
  }
}

/** Has a plan carried out, if it is one. */
async function offer({ run, say, env }, { name, look }) {
  const lookAgain = () => {
    const uid = process.getuid?.();
    const hasSudo = findCommands(['sudo'], process.env.PATH).has('sudo');
    return look({
      uid,
      hasPasswordlessSudo: uid !== 0 && hasSudo && hasPasswordlessSudo(),
    });
  };
  const { found, advice, refresh, attempts = [] } = lookAgain();
  if (found !== undefined) {
    return;
  }
  for (const [command, ...args] of [...(refresh ? [refresh] : []), ...attempts]) {
    say(`no ${name} here, installing it: ${command} ${args.join(' ')}`);
    const { code, text } = await run(command, args, {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
      output: 'capture',
      timeoutMs: installTimeoutMs,
    });
    if (lookAgain().found !== undefined) {
      return;
    }
    if (code !== 0) {
      say(`that failed: ${text.trimEnd().split('\n').at(-1)}`);
    }
  }
  say(`warning: going on without ${name}, which some tests need (to add it: ${advice})`);
}
