const servers = ['redis-server', 'valkey-server'];

/** In the order they are looked for. Of `packages` a distribution has one or both. */
export const managers = [
  {
    command: 'apt-get',
    byHand: 'apt-get install redis-server',
    refresh: ['update'],
    // A fresh machine often runs its own apt at boot, which holds the lock for a while.
    install: ['-o', 'DPkg::Lock::Timeout=60', 'install', '-y', '--no-install-recommends'],
    packages: ['redis-server', 'valkey-server'],
  },
  {
    command: 'dnf',
    byHand: 'dnf install valkey',
    install: ['install', '-y'],
    packages: ['valkey', 'redis'],
  },
  {
    command: 'apk',
    byHand: 'apk add valkey',
    install: ['add', '--no-cache'],
    packages: ['valkey', 'redis'],
  },
  // Homebrew refuses to run as root; the others need it.
  {
    command: 'brew',
    byHand: 'brew install redis',
    install: ['install'],
    packages: ['redis'],
    asUser: true,
  },
];

/** The programs that `planRedis` wants to know about. */
export const redisCommands = [...servers, ...managers.map(({ command }) => command), 'sudo'];

/**
 * Says whether there is a Redis, and if not, how to get one here.
 *
 * @param {object} facts
 * @param {string | undefined} facts.redisUrl REDIS_URL
 * @param {Set<string>} facts.commands which of `redisCommands` are on the PATH
 * @param {number | undefined} facts.uid 0 is root
 * @param {boolean} facts.hasPasswordlessSudo
 * @returns {{ found: string } | { advice: string, refresh?: string[], attempts?: string[][] }}
 *   `advice` is for a person. `attempts` are command lines to try until one succeeds, after
 *   `refresh`; there are none when this user may not install.
 */
export function planRedis({ redisUrl, commands, uid, hasPasswordlessSudo }) {
  const found = redisUrl ? 'REDIS_URL' : servers.find((server) => commands.has(server));
  if (found) {
    return { found };
  }
  const manager = managers.find(({ command }) => commands.has(command));
  if (manager === undefined) {
    return { advice: 'install redis-server or valkey-server, or set REDIS_URL' };
  }
  return planInstall(manager, { uid, hasPasswordlessSudo });
}

/**
 * How a package manager installs its packages here; see `planRedis`.
 *
 * @param {object} manager one of `managers`, perhaps with other packages
 * @param {{ uid: number | undefined, hasPasswordlessSudo: boolean }} user
 */
export function planInstall(manager, { uid, hasPasswordlessSudo }) {
  const { command, byHand, refresh, install, packages, asUser = false } = manager;
  const isRoot = uid === 0;
  const needsSudo = !asUser && !isRoot;
  const advice = needsSudo ? `sudo ${byHand}` : byHand;
  if ((needsSudo && !hasPasswordlessSudo) || (asUser && isRoot)) {
    return { advice };
  }
  const prefix = needsSudo ? ['sudo', '-n'] : [];
  return {
    advice,
    ...(refresh && { refresh: [...prefix, command, ...refresh] }),
    attempts: packages.map((name) => [...prefix, command, ...install, name]),
  };
}
