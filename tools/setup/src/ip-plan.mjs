import { managers, planInstall } from './redis-plan.mjs';

/** The package with `ip`, which gives addresses to the network namespaces of the download tests. */
const packageNames = { 'apt-get': 'iproute2', dnf: 'iproute', apk: 'iproute2' };

/** The programs that `planIp` wants to know about. */
export const ipCommands = ['ip', ...Object.keys(packageNames), 'sudo'];

/**
 * Says whether `ip` is there where it is needed, and if not, how to get it. Facts and answer are those of `planRedis`.
 *
 * @param {{ platform: string, commands: Set<string>, uid: number | undefined, hasPasswordlessSudo: boolean }} facts
 */
export function planIp({ platform, commands, uid, hasPasswordlessSudo }) {
  if (platform !== 'linux' || commands.has('ip')) {
    return { found: 'ip' };
  }
  const manager = managers.find(({ command }) => command in packageNames && commands.has(command));
  if (manager === undefined) {
    return { advice: 'install iproute2' };
  }
  const name = packageNames[manager.command];
  const byHand = `${manager.command} install ${name}`;
  return planInstall({ ...manager, byHand, packages: [name] }, { uid, hasPasswordlessSudo });
}
