import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { type GatewayOptions, gatewaySchema } from './options.ts';
import { roleLabel } from './roles.ts';

/** Ports of a process that stands for a gateway, where an embedded one takes any free port. */
const processDefaults = { host: '0.0.0.0', publicPort: 8080, internalPort: 8081, adminPort: 9901 };

const names = Object.keys(gatewaySchema.shape).filter((name) => name !== 'endpoints');

/**
 * Reads `GATEWAY_*` variables and `--kebab-case` flags; a flag wins. Pods come from a YAML file
 * (`--endpoints-file`, the EPP's file discovery schema) and from `--endpoint name=host:port,role`,
 * which may stand several times. Throws on what it does not know.
 */
export function optionsFrom(args: readonly string[], env: NodeJS.ProcessEnv): GatewayOptions {
  const texts: Record<string, string> = {};
  for (const name of [...names, 'endpointsFile']) {
    const value = env[`GATEWAY_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`];
    if (value !== undefined && value !== '') texts[name] = value;
  }
  const endpoints: unknown[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const [flag = '', inline] = (args[index] ?? '').split(/=(.*)/s);
    const name = flag
      .replace(/^--/, '')
      .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (!flag.startsWith('--') || ![...names, 'endpointsFile', 'endpoint'].includes(name)) {
      throw new Error(`unknown flag ${flag}; the options are in the README of gateway-sim`);
    }
    const value = inline ?? args[(index += 1)];
    if (value === undefined) throw new Error(`${flag}: a value is missing`);
    if (name === 'endpoint') endpoints.push(endpointFrom(value));
    else texts[name] = value;
  }
  const { endpointsFile, ...options } = texts;
  if (endpointsFile !== undefined) endpoints.unshift(...endpointsIn(endpointsFile));
  return gatewaySchema.parse({ ...processDefaults, ...options, endpoints });
}

function endpointFrom(text: string): unknown {
  const match = /^([^=,]+)=(.+):(\d+),([^,]+)$/.exec(text);
  if (!match) throw new Error(`--endpoint: expected name=host:port,role, got ${text}`);
  const [, name, address, port, role] = match;
  return { name, address, port, labels: { [roleLabel]: role } };
}

function endpointsIn(file: string): unknown[] {
  const content: unknown = parse(readFileSync(file, 'utf8'));
  const endpoints =
    typeof content === 'object' && content !== null && 'endpoints' in content
      ? content.endpoints
      : undefined;
  if (!Array.isArray(endpoints)) throw new Error(`${file}: expected a list 'endpoints'`);
  return endpoints;
}
