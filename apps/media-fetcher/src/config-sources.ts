import { ConfigError, describeProblem, nearestName, readYamlFile } from '@llm-d/config';
import { z } from 'zod';

/** Values by path, before they are checked. */
export type Mapping = Record<string, unknown>;

/** Paths of the keys that hold values, such as `cache.enabled`, with what each one is. */
export function leavesOf(schema: z.ZodObject, prefix = ''): Map<string, z.ZodType> {
  const leaves = new Map<string, z.ZodType>();
  for (const [name, part] of Object.entries(schema.shape) as [string, z.ZodType][]) {
    const inner = part instanceof z.ZodPrefault ? (part.def.innerType as z.ZodType) : part;
    if (inner instanceof z.ZodObject) {
      for (const leaf of leavesOf(inner, `${prefix}${name}.`)) leaves.set(...leaf);
    } else leaves.set(prefix + name, part);
  }
  return leaves;
}

/** `MEDIA_CACHE_ENABLED` for `cache.enabled`. */
export const variableOf = (path: string): string =>
  `MEDIA_${path.replaceAll('.', '_').toUpperCase()}`;

/** What Kubernetes sets for a Service named `media-fetcher`. */
const kubernetesVariable = /^MEDIA_FETCHER_/;

/**
 * Puts file, environment and flags together: flags win over `MEDIA_*` variables, those over the file. Empty variables
 * count as absent.
 *
 * @param flags flags that set a key, by name.
 * @throws ConfigError for a file or a flag that cannot be read.
 */
export function readSources(
  schema: z.ZodObject,
  flags: Readonly<Record<string, string>>,
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): { values: Mapping; warnings: string[] } {
  const given = readFlags(argv, ['config', ...Object.keys(flags)]);
  const file = given.get('config') ?? environment['MEDIA_CONFIG'];
  const values = file === undefined || file === '' ? {} : withoutNulls(readYamlFile(file));
  const paths = [...leavesOf(schema).keys()];
  const pathOf = new Map(paths.map((path) => [variableOf(path), path]));
  const warnings: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('MEDIA_') || name === 'MEDIA_CONFIG') continue;
    const path = pathOf.get(name);
    if (path !== undefined) {
      if (text !== undefined && text !== '') setAt(values, path.split('.'), text);
    } else if (!kubernetesVariable.test(name)) {
      const nearest = nearestName(name, pathOf.keys());
      warnings.push(
        `${name}: unknown environment variable${nearest ? `, did you mean ${nearest}?` : ''}`,
      );
    }
  }
  for (const [flag, path] of Object.entries(flags)) {
    const value = given.get(flag);
    if (value !== undefined) setAt(values, path.split('.'), value);
  }
  return { values, warnings };
}

/** Checks values. @throws ConfigError that names every problem. */
export function checkValues<Schema extends z.ZodObject>(
  schema: Schema,
  values: Mapping,
): z.output<Schema> {
  const result = schema.safeParse(values);
  if (result.success) return result.data;
  const known = [...leavesOf(schema).keys()];
  throw new ConfigError(
    result.error.issues.flatMap((issue) => {
      const path = issue.path.map(String).join('.');
      if (issue.code === 'unrecognized_keys') {
        return issue.keys.map((key) => unknownKey(path === '' ? key : `${path}.${key}`, known));
      }
      // The plural is no name that `describeProblem` knows for a secret.
      const isSecret = path === 'tokens' || path.startsWith('tokens.');
      return [describeProblem(path, issue.message, isSecret ? '***' : valueAt(values, issue.path))];
    }),
  );
}

function unknownKey(path: string, known: readonly string[]): string {
  const nearest = nearestName(path, known);
  return `${path}: unknown key${nearest ? `, did you mean ${nearest}?` : ''}`;
}

function readFlags(argv: readonly string[], names: readonly string[]): Map<string, string> {
  const given = new Map<string, string>();
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name = '', inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === '') {
      throw new ConfigError([describeProblem('command line', 'flags such as --config', word)]);
    }
    if (!names.includes(name)) {
      const nearest = nearestName(name, names);
      throw new ConfigError([
        `--${name}: unknown flag${nearest ? `, did you mean --${nearest}?` : ''}`,
      ]);
    }
    const value = inline ?? rest.shift();
    if (value === undefined || value === '') {
      throw new ConfigError([`--${name}: expected a value, got nothing`]);
    }
    given.set(name, value);
  }
  return given;
}

/** A key without a value counts as absent. */
function withoutNulls(mapping: Mapping): Mapping {
  return Object.fromEntries(
    Object.entries(mapping)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, isMapping(value) ? withoutNulls(value) : value]),
  );
}

/** Writes a value below sections that may be missing; a section of the wrong type stays refused. */
function setAt(values: Mapping, [name = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) values[name] = value;
  else {
    const section = (values[name] ??= {});
    if (isMapping(section)) setAt(section, rest, value);
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

function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
