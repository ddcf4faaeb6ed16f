import { managers, planInstall } from './redis-plan.mjs';

/**
 * What tests need beside Redis: commands that must all be there, the packages that bring them, and the only platform
 * that needs them.
 */
export const tools = {
  /** Gives addresses to the network namespaces of the download tests. */
  iproute2: {
    platform: 'linux',
    commands: ['ip'],
    packages: { 'apt-get': 'iproute2', dnf: 'iproute', apk: 'iproute2' },
  },
  /** Runs the snippet of the docs, and fetches programs that come as Python packages. */
  Python: {
    commands: ['python3', 'pip3'],
    packages: { 'apt-get': 'python3-pip', dnf: 'python3-pip', apk: 'py3-pip', brew: 'python' },
  },
};

/** The programs that `planTool` wants to know about. */
export const toolCommands = [
  ...Object.values(tools).flatMap(({ commands }) => commands),
  ...managers.map(({ command }) => command),
  'sudo',
];

/**
 * Says whether a tool is there where it is needed, and if not, how to get it. Facts and answer are those of `planRedis`.
 *
 * @param {keyof typeof tools} name
 * @param {{ platform: string, commands: Set<string>, uid: number | undefined, hasPasswordlessSudo: boolean }} facts
 */
export function planTool(name, { platform, commands, uid, hasPasswordlessSudo }) {
  const { packages, commands: wanted, platform: only = platform } = tools[name];
  if (platform !== only || wanted.every((command) => commands.has(command))) {
    return { found: name };
  }
  const manager = managers.find(({ command }) => command in packages && commands.has(command));
  if (manager === undefined) {
    return { advice: `install ${name}` };
  }
  const packageName = packages[manager.command];
  const byHand = `${manager.command} install ${packageName}`;
  return planInstall({ ...manager, byHand, packages: [packageName] }, { uid, hasPasswordlessSudo });
}
