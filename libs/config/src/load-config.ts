import { readFileSync } from 'node:fs';
import { ConfigError, describeProblem } from './config-error.ts';
import { configKeys } from './keys.ts';
import { nearestName } from './nearest-name.ts';
import { type FileMapping, readFileContent } from './read-file.ts';
import { type CoordinatorConfig, coordinatorConfig } from './schema.ts';

/** Where the configuration comes from; flags win over the environment, that over the file. */
export interface ConfigSources {
  /** Path of the YAML file. */
  readonly file: string;
  /** `COORDINATOR_*` variables count, others are not looked at. Empty values count as absent. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Texts by key, such as `log_level`. */
  readonly flags?: Readonly<Record<string, string>>;
  /** Refuse unknown keys instead of returning them as warnings. */
  readonly strict?: boolean;
}

/** A configuration to start with, and what its author should hear. */
export interface LoadedConfig {
  readonly config: CoordinatorConfig;
  readonly warnings: readonly string[];
}

/** Variables that Kubernetes sets for a Service named `coordinator`. */
const kubernetesVariable = /^COORDINATOR_(?:SERVICE_|PORT(?:_|$))/;

/**
 * Loads and checks the whole configuration. Throws a ConfigError with every problem found, each
 * naming key, expectation and value.
 */
export function loadConfig(sources: ConfigSources): LoadedConfig {
  const { environment = {}, flags = {} } = sources;
  const { values, unknownKeys } = readFileContent(readText(sources.file));
  const unknown = [...unknownKeys, ...unknownVariables(environment)];
  if (sources.strict && unknown.length > 0) throw new ConfigError(unknown);

  for (const { path, environmentName } of configKeys) {
    const fromEnvironment = environmentName && environment[environmentName];
    const text = flags[path] ?? (fromEnvironment === '' ? undefined : fromEnvironment);
    if (text !== undefined) setAt(values, path.split('.'), text);
  }

  const result = coordinatorConfig.safeParse(values);
  if (!result.success) {
    throw new ConfigError(
      result.error.issues.map((issue) =>
        describeProblem(writePath(issue.path), issue.message, valueAt(values, issue.path)),
      ),
    );
  }
  return { config: result.data, warnings: unknown };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    // Nothing but Errors is thrown by the call above.
    const reason = (error as Error).message;
    throw new ConfigError([`configuration file: cannot be read: ${reason}`], { cause: error });
  }
}

function unknownVariables(environment: Readonly<Record<string, string | undefined>>): string[] {
  const known = new Set(configKeys.map((key) => key.environmentName ?? ''));
  return Object.keys(environment)
    .filter((name) => name.startsWith('COORDINATOR_') && !known.has(name))
    .filter((name) => !kubernetesVariable.test(name))
    .map((name) => {
      const nearest = nearestName(name, known);
      return `${name}: unknown environment variable${nearest ? `, did you mean ${nearest}?` : ''}`;
    });
}

/** Writes a text below sections that may be missing; a section of the wrong type stays refused. */
function setAt(values: FileMapping, path: readonly string[], text: string): void {
  const [name = '', ...rest] = path;
  if (rest.length === 0) {
    values[name] = text;
    return;
  }
  const section = (values[name] ??= {});
  if (typeof section === 'object' && !Array.isArray(section)) {
    setAt(section as FileMapping, rest, text);
  }
}

function valueAt(values: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (value, name) => (value === undefined ? value : (value as Record<PropertyKey, unknown>)[name]),
    values,
  );
}

/** `pipeline.steps[1].type`. */
function writePath(path: readonly PropertyKey[]): string {
  return path
    .map((name, index) =>
      typeof name === 'number' ? `[${name}]` : `${index === 0 ? '' : '.'}${String(name)}`,
    )
    .join('');
}
