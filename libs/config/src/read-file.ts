import { nearestName } from './nearest-name.ts';
import { sections } from './schema.ts';

/** A mapping of the file. */
export type FileMapping = Record<string, unknown>;

/** What a file says: known keys by their proper names, and what nobody knows. */
export interface FileContent {
  readonly values: FileMapping;
  /** One line per unknown key, with the name that was probably meant. */
  readonly unknownKeys: readonly string[];
}

/**
 * Known and unknown keys of a configuration file. Key names may be in any case, a key without a value counts as absent.
 */
export function readFileContent(file: FileMapping): FileContent {
  const unknownKeys: string[] = [];
  return { values: readSection(file, '', unknownKeys), unknownKeys };
}

function readSection(given: FileMapping, section: string, unknownKeys: string[]): FileMapping {
  const known = new Set(Object.keys(sections[section as keyof typeof sections]));
  return renameKeys(given, section, known, unknownKeys, (path, value) => {
    if (path in sections && isMapping(value)) return readSection(value, path, unknownKeys);
    if (path === 'pipeline.steps' && Array.isArray(value)) {
      return readSteps(value, path, unknownKeys);
    }
    return value;
  });
}

/** The steps of a list with their key names in lower case; what nobody knows is added to `unknownKeys`. */
export function readSteps(
  steps: readonly unknown[],
  path: string,
  unknownKeys: string[],
): unknown[] {
  return steps.map((step, index) => readStep(step, `${path}[${index}]`, unknownKeys));
}

function readStep(step: unknown, path: string, unknownKeys: string[]): unknown {
  if (!isMapping(step)) return step;
  const stepKeys = new Set(['type', 'params']);
  return renameKeys(step, path, stepKeys, unknownKeys, (_path, value) =>
    isMapping(value) ? lowerCaseKeys(value) : value,
  );
}

function renameKeys(
  given: FileMapping,
  section: string,
  known: ReadonlySet<string>,
  unknownKeys: string[],
  read: (path: string, value: unknown) => unknown,
): FileMapping {
  const result: FileMapping = {};
  for (const [name, value] of Object.entries(lowerCaseKeys(given))) {
    const path = section === '' ? name : `${section}.${name}`;
    if (!known.has(name)) {
      const nearest = nearestName(name, known);
      unknownKeys.push(`${path}: unknown key${nearest ? `, did you mean ${nearest}?` : ''}`);
    } else if (value !== null) {
      result[name] = read(path, value);
    }
  }
  return result;
}

function lowerCaseKeys(given: FileMapping): FileMapping {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

function isMapping(value: unknown): value is FileMapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
