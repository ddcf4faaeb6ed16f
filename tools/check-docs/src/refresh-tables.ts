import {
  type ConfigKey,
  configKeys,
  describeParams,
  type StepParam,
  writeValue,
} from '@llm-d/config';
import { builtInSteps } from '@llm-d/steps';

/** A marker, and the table or the sentence below it if it is there already. */
const tables = /<!-- (keys|params): (\S+) -->(?:\n\n(?:(?:\|[^\n]*\n)*\|[^\n]*|No parameters\.))?/g;

/** The section name of a marker for the keys at the top level. */
const topLevel = 'process';

/**
 * Writes the tables of a page anew: below each marker `<!-- keys: SECTION -->` the keys of a section of the configuration,
 * below `<!-- params: STEP -->` the parameters of a kind of step, both with what their schemas say of them. The rest
 * stays as it is.
 *
 * @throws Error when a marker names a section or a step that is not there.
 */
export function refreshTables(page: string): string {
  return page.replaceAll(
    tables,
    (_all, kind: string, name: string) =>
      `<!-- ${kind}: ${name} -->\n\n${kind === 'keys' ? keyTable(name) : paramTable(name)}`,
  );
}

/** The markers of a page in order, each as `kind: name`. */
export function tablesOf(page: string): string[] {
  return [...page.matchAll(tables)].map(([, kind, name]) => `${kind}: ${name}`);
}

/** The markers that a page about the whole configuration has. */
export function neededTables(): string[] {
  const sections = new Set(configKeys.map(({ section }) => (section === '' ? topLevel : section)));
  return [
    ...[...sections].map((section) => `keys: ${section}`),
    ...builtInSteps.map(({ type }) => `params: ${type}`),
  ];
}

function keyTable(name: string): string {
  const keys = configKeys.filter(({ section }) => section === (name === topLevel ? '' : name));
  if (keys.length === 0) throw new Error(`no section of the configuration is named ${name}`);
  const rows = keys.map((key) => [
    code(key.path),
    defaultOfKey(key),
    code(key.environmentName),
    key.meaning,
  ]);
  return table(['Key', 'Default', 'Environment', 'Meaning'], rows);
}

function paramTable(name: string): string {
  const step = builtInSteps.find(({ type }) => type === name);
  if (!step) throw new Error(`no kind of step is named ${name}`);
  const params = describeParams(step.params);
  if (params.length === 0) return 'No parameters.';
  const rows = params.map((param) => [code(param.name), defaultOfParam(param), param.meaning]);
  return table(['Parameter', 'Default', 'Meaning'], rows);
}

function defaultOfKey({ default: standard, isRequired }: ConfigKey): string {
  if (standard === undefined) return isRequired ? 'required' : 'by era';
  return code(writeValue(standard));
}

function defaultOfParam({ default: standard, isRequired, isInherited }: StepParam): string {
  if (isInherited) return 'pipeline';
  if (standard === undefined) return isRequired ? 'required' : 'none';
  return code(writeValue(standard));
}

const code = (text: string): string => `\`${text}\``;

/** A table with columns as wide as Prettier makes them. */
function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const rows = [head, ...body].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = head.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[], fill: string): string =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width, fill)).join(' | ')} |`;
  const [first = [], ...rest] = rows;
  return [line(first, ' '), line([], '-'), ...rest.map((row) => line(row, ' '))].join('\n');
}
