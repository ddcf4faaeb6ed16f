import { ConfigError, describeProblem } from './config-error.ts';
import { nearestName } from './nearest-name.ts';

/** What a command line asks for. */
export interface Flags {
  /** Path of the configuration file. */
  readonly file: string;
  /** Unknown keys end the start. */
  readonly strictConfig: boolean;
  /** Texts by key, such as `log_level`; only keys that were given. */
  readonly overrides: Readonly<Record<string, string>>;
  /** Accepted for the original's sake, without effect here. */
  readonly ignored: readonly string[];
}

/** The key that a flag overrides, and whether it stands without a value. */
const keyFlags: Readonly<Record<string, { key: string; isSwitch?: true }>> = {
  v: { key: 'log_level' },
  'metrics-port': { key: 'server.metrics_port' },
  'metrics-cert-dir': { key: 'server.metrics_cert_dir' },
  'secure-serving': { key: 'server.secure_serving', isSwitch: true },
  'cert-path': { key: 'server.cert_path' },
  'tls-min-version': { key: 'server.tls_min_version' },
  'tls-cipher-suites': { key: 'server.tls_cipher_suites' },
  tracing: { key: 'tracing', isSwitch: true },
};

/** Options of the original's logger; `zap-log-level` is the only one with a meaning here. */
const zapFlags = new Set([
  'zap-log-level',
  'zap-encoder',
  'zap-stacktrace-level',
  'zap-time-encoding',
]);
const zapLevels: Readonly<Record<string, string>> = { error: '1', info: '2', debug: '4' };

/** Every flag without its dashes. */
export const flagNames: readonly string[] = [
  'config',
  'strict-config',
  ...Object.keys(keyFlags),
  ...zapFlags,
  'zap-devel',
];

/** What is read when no flag names a file. */
export const defaultFile = 'config/coordinator/coordinator.yaml';

/**
 * Reads the command line as Go does: one or two dashes, `--name value` or `--name=value`, switches
 * without a value. Throws a ConfigError for unknown flags and missing values.
 */
export function parseFlags(argv: readonly string[]): Flags {
  let file = defaultFile;
  let strictConfig = false;
  let zapLevel: string | undefined;
  const overrides: Record<string, string> = {};
  const ignored: string[] = [];

  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name, given] = /^--?([a-z][a-z-]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) {
      throw new ConfigError([describeProblem('command line', 'flags such as --config', word)]);
    }
    const value = (): string => {
      const text = given ?? rest.shift();
      if (text === undefined) throw new ConfigError([`--${name}: expected a value, got nothing`]);
      return text;
    };
    const keyFlag = keyFlags[name];
    if (name === 'config') file = value();
    else if (name === 'strict-config') strictConfig = (given ?? 'true') !== 'false';
    else if (name === 'v') overrides['log_level'] = readVerbosity(value());
    else if (keyFlag?.isSwitch) overrides[keyFlag.key] = given ?? 'true';
    else if (keyFlag) overrides[keyFlag.key] = value();
    else if (name === 'zap-log-level') zapLevel = value();
    else if (zapFlags.has(name)) ignored.push(`--${name}=${value()}`);
    else if (name === 'zap-devel') ignored.push(`--${name}`);
    else throw new ConfigError([describeUnknownFlag(name)]);
  }
  // An explicit level of the logger wins over -v.
  if (zapLevel !== undefined) overrides['log_level'] = zapLevels[zapLevel] ?? zapLevel;
  return { file, strictConfig, overrides, ignored };
}

/** Kubernetes programs are often run with `-v=10`; more than everything is everything. */
function readVerbosity(text: string): string {
  const level = Number(text);
  if (!Number.isInteger(level)) return text;
  return String(level < 0 ? 2 : Math.min(level, 5));
}

function describeUnknownFlag(name: string): string {
  const nearest = nearestName(name, [...flagNames, 'help', 'version']);
  return `--${name}: unknown flag${nearest ? `, did you mean --${nearest}?` : ''}`;
}
