import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findCommands } from './facts.mjs';
import { prepare, runQuietly } from './prepare.mjs';
import { planRedis, redisCommands } from './redis-plan.mjs';

const stack = [
  ...['coordinator', 'render-shim', 'media-fetcher', 'async-broker'],
  ...['gateway-sim', 'worker-sim', 'local-stack'],
];

/** What each npm script runs, and the packages that must be built for it. */
const programs = {
  start: { main: 'tools/local-stack/dist/main.js', packages: stack, wantsRedis: true },
  bench: {
    main: 'tools/bench/dist/main.js',
    packages: ['coordinator', 'render-shim', 'gateway-sim', 'bench'],
  },
  soak: { main: 'tools/soak/dist/main.js', packages: [...stack, 'soak'] },
  // Starts what is built, at once: building is for those who change something.
  coordinator: {
    main: 'apps/coordinator/dist/main.js',
    packages: ['coordinator'],
    onlyIfMissing: true,
  },
};

/** Names that `launch` knows. */
export const programNames = Object.keys(programs);

/**
 * Installs and builds what a program needs, runs it with the arguments and resolves with its exit
 * code. Writes nothing to stdout itself: that is the program's.
 *
 * @param {string} name one of `programNames`
 * @param {string[]} args
 * @param {{ root: string, run: Function, say: (line: string) => void }} context
 * @returns {Promise<number>}
 */
export async function launch(name, args, context) {
  const { root, run, say } = context;
  const { main, packages, wantsRedis = false, onlyIfMissing = false } = programs[name];
  const { node, env } = await prepare(context);

  if (!onlyIfMissing || !existsSync(join(root, main))) {
    const projects = packages.map((project) => `@llm-d/${project}`).join(',');
    say('building');
    await runQuietly({ run, say, env }, 'nx', ['run-many', '-t', 'build', '-p', projects]);
  }
  if (wantsRedis) {
    const redis = planRedis({
      redisUrl: process.env.REDIS_URL,
      commands: findCommands(redisCommands, process.env.PATH),
      uid: process.getuid?.(),
      hasPasswordlessSudo: false,
    });
    if (redis.advice !== undefined) {
      say(
        'no Redis here, and none needed; it would add queued (asynchronous) requests and a shared ' +
          `media cache (to add it: ${redis.advice})`,
      );
    }
  }
  const { code } = await run(node, [join(root, main), ...args], { env, isLast: true });
  return code;
}
