import { hostname, networkInterfaces } from 'node:os';
import { optionNames, workerConfig, type WorkerOptions } from './options.ts';

/** Options of every pod that a process shall run. */
export interface Processes {
  pods: number;
  options: WorkerOptions[];
}

/** Defaults of a process that stands for a pod, where an embedded worker takes any free port. */
const podDefaults = {
  host: '0.0.0.0',
  port: 8000,
  sidePortKv: 5600,
  sidePortEc: 5610,
  bootstrapPort: 8998,
};

const ports = ['port', 'sidePortKv', 'sidePortEc', 'bootstrapPort'] as const;

/**
 * Reads `SIM_*` variables and `--kebab-case` flags; a flag wins. Throws on an unknown flag or a bad
 * value, naming it. Several pods take consecutive ports.
 */
export function optionsFrom(args: readonly string[], env: NodeJS.ProcessEnv): Processes {
  const given = { ...fromEnv(env), ...fromFlags(args) };
  const { pods: podsText = '1', ...texts } = given;
  const pods = Number(podsText);
  if (!Number.isInteger(pods) || pods < 1)
    throw new Error(`--pods: expected 1 or more, got ${podsText}`);
  const base = { ...podDefaults, ...texts };
  const podIp = base.host === podDefaults.host ? firstAddress() : base.host;
  const options = Array.from({ length: pods }, (_, index) => {
    const config = workerConfig({ podIp, podName: hostname(), ...base });
    // Port 0 means any free port, for every pod.
    for (const name of ports) if (config[name] !== 0) config[name] += index;
    if (pods > 1) config.podName = `${config.podName ?? hostname()}-${index}`;
    return config;
  });
  return { pods, options };
}

function fromEnv(env: NodeJS.ProcessEnv): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const name of [...optionNames, 'pods']) {
    const value = env[`SIM_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`];
    if (value !== undefined && value !== '') texts[name] = value;
  }
  return texts;
}

function fromFlags(args: readonly string[]): Record<string, string> {
  const texts: Record<string, string> = {};
  for (let index = 0; index < args.length; index += 1) {
    const [flag = '', inline] = (args[index] ?? '').split(/=(.*)/s);
    const name = flag
      .replace(/^--/, '')
      .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (!flag.startsWith('--') || ![...optionNames, 'pods'].includes(name)) {
      throw new Error(`unknown flag ${flag}; the options are in the README of worker-sim`);
    }
    const value = inline ?? args[(index += 1)];
    if (value === undefined) throw new Error(`${flag}: a value is missing`);
    texts[name] = value;
  }
  return texts;
}

function firstAddress(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outside = addresses.find(({ family, internal }) => family === 'IPv4' && !internal);
  return outside?.address ?? '127.0.0.1';
}
