import { parse } from 'yaml';
import { ConfigError, describeProblem } from './config-error.ts';
import { type ElementVariable, readEnvironment } from './environment.ts';
import { configKeys } from './keys.ts';
import { type FileMapping, readFileContent, readSteps } from './read-file.ts';
import { readYamlFile } from './read-yaml.ts';
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
  /** As the file would spell it: what was given, without defaults. */
  readonly given: Readonly<FileMapping>;
  /**
   * `file`, `env NAME` or `flag` by path, such as `server.read_timeout` or `pipeline.steps[1].params.address`; a list
   * with elements from the environment has all its origins. What is missing is a default.
   */
  readonly origins: ReadonlyMap<string, string>;
}

/**
 * Loads and checks the whole configuration. Throws a ConfigError with every problem found, each
 * naming key, expectation and value.
 */
export function loadConfig(sources: ConfigSources): LoadedConfig {
  const { values, unknownKeys } = readFileContent(readYamlFile(sources.file));
  const environment = readEnvironment(sources.environment ?? {});
  const unknown = [...unknownKeys, ...environment.unknown];
  const origins = new Map<string, string>();

  for (const { path, default: standard } of configKeys) {
    const names = path.split('.');
    if (valueAt(values, names) !== undefined) noteOrigin(origins, path, values, 'file');
    const flag = sources.flags?.[path];
    if (flag !== undefined) {
      setAt(values, names, flag);
      noteOrigin(origins, path, values, 'flag');
      continue;
    }
    const variable = environment.keys.get(path);
    if (variable) {
      const isSteps = path === 'pipeline.steps';
      const value = isSteps ? readStepsText(variable.text, unknown) : variable.text;
      setAt(values, names, value);
      noteOrigin(origins, path, values, `env ${variable.name}`);
    }
    const elements = environment.elements.get(path);
    const list = elements && toList(valueAt(values, names) ?? standard);
    // What is no list is refused as a whole.
    if (list) {
      for (const element of elements) setElement(list, path, element, origins);
      setAt(values, names, list);
    }
  }
  if (sources.strict && unknown.length > 0) throw new ConfigError(unknown);

  const result = coordinatorConfig.safeParse(values);
  if (!result.success) {
    const problems = result.error.issues.map((issue) =>
      describeProblem(writePath(issue.path), issue.message, valueAt(values, issue.path)),
    );
    // What is missing may be there under a misspelt name.
    throw new ConfigError([...problems, ...unknown]);
  }
  return { config: result.data, warnings: unknown, given: values, origins };
}

/** Origins of lists of steps are kept by field, so that one field can come from somewhere else. */
function noteOrigin(
  origins: Map<string, string>,
  path: string,
  values: FileMapping,
  origin: string,
): void {
  if (path !== 'pipeline.steps') {
    origins.set(path, origin);
    return;
  }
  for (const known of origins.keys()) if (known.startsWith(path)) origins.delete(known);
  const steps = valueAt(values, path.split('.'));
  if (!Array.isArray(steps)) return;
  for (const [index, step] of steps.entries()) {
    origins.set(`${path}[${index}].type`, origin);
    const params: unknown = valueAt(step, ['params']);
    if (typeof params !== 'object' || params === null) continue;
    for (const name of Object.keys(params)) origins.set(`${path}[${index}].params.${name}`, origin);
  }
}

/** One element of a list from the environment: a text, or a field of a step. */
function setElement(
  list: unknown[],
  path: string,
  { name, text, index, field }: ElementVariable,
  origins: Map<string, string>,
): void {
  if (index > list.length) {
    throw new ConfigError([`${name}: expected an index from 0 to ${list.length}, got ${index}`]);
  }
  const origin = `env ${name}`;
  if (field === undefined) {
    list[index] = text;
    const others = origins.get(path);
    origins.set(path, others === undefined ? origin : `${others}, ${origin}`);
    return;
  }
  const step = { ...((list[index] ?? {}) as FileMapping) };
  list[index] = step;
  if (field === 'type') {
    step['type'] = text;
    origins.set(`${path}[${index}].type`, origin);
  } else {
    step['params'] = { ...((step['params'] ?? {}) as FileMapping), [field.param]: readYaml(text) };
    origins.set(`${path}[${index}].params.${field.param}`, origin);
  }
}

/** A copy of a list, whose elements a text names between commas; undefined for anything else. */
function toList(value: unknown): unknown[] | undefined {
  if (typeof value === 'string') return value === '' ? [] : value.split(',');
  return Array.isArray(value) ? [...(value as unknown[])] : undefined;
}

function readStepsText(text: string, unknown: string[]): unknown {
  const value = readYaml(text);
  return Array.isArray(value) ? readSteps(value, 'pipeline.steps', unknown) : value;
}

/** Parameters of steps have types that only the steps know, so their texts are read as the file would be. */
function readYaml(text: string): unknown {
  try {
    // `#fff` would be a comment.
    return text.startsWith('#') ? text : (parse(text) as unknown);
  } catch {
    return text;
  }
}

/** Writes a value below sections that may be missing; a section of the wrong type stays refused. */
function setAt(values: FileMapping, path: readonly string[], value: unknown): void {
  const [name = '', ...rest] = path;
  if (rest.length === 0) {
    values[name] = value;
    return;
  }
  const section = (values[name] ??= {});
  if (typeof section === 'object' && !Array.isArray(section)) {
    setAt(section as FileMapping, rest, value);
  }
}

function valueAt(values: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (value, name) =>
      typeof value === 'object' && value !== null
        ? (value as Record<PropertyKey, unknown>)[name]
        : undefined,
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
