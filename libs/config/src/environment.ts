import { type ConfigKey, configKeys } from './keys.ts';
import { nearestName } from './nearest-name.ts';

/** A variable that sets a whole key. */
export interface KeyVariable {
  readonly name: string;
  readonly text: string;
}

/** A variable that sets one element of a list, or one field of a step. */
export interface ElementVariable extends KeyVariable {
  readonly index: number;
  /** Absent for an element that is a text; else what of the step: its type, or a parameter by name. */
  readonly field?: 'type' | { readonly param: string };
}

/** What the environment says, by key. */
export interface EnvironmentContent {
  readonly keys: ReadonlyMap<string, KeyVariable>;
  /** In the order of their indexes. */
  readonly elements: ReadonlyMap<string, readonly ElementVariable[]>;
  /** One line per variable that means no key, with the name that was probably meant. */
  readonly unknown: readonly string[];
}

/** Variables that Kubernetes sets for a Service named `coordinator`. */
const kubernetesVariable = /^COORDINATOR_(?:SERVICE_|PORT(?:_|$))/;

/**
 * Finds the variables that set keys: `COORDINATOR_SERVER_READ_TIMEOUT` a whole one,
 * `COORDINATOR_SERVER_STRIP_REQUEST_HEADERS_0` an element of a list, `COORDINATOR_PIPELINE_STEPS_1_TYPE` and
 * `COORDINATOR_PIPELINE_STEPS_1_PARAMS_ADDRESS` fields of a step. Empty values count as absent.
 */
export function readEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): EnvironmentContent {
  const keys = new Map<string, KeyVariable>();
  const elements = new Map<string, ElementVariable[]>();
  const unknown: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('COORDINATOR_') || kubernetesVariable.test(name)) continue;
    const key = configKeys.find((known) => known.environmentName === name);
    const element = key ? undefined : readElement(name, text ?? '');
    if (!key && !element) unknown.push(describeUnknown(name));
    else if (text === undefined || text === '') continue;
    else if (key) keys.set(key.path, { name, text });
    else if (element) {
      const { path, variable } = element;
      elements.set(path, [...(elements.get(path) ?? []), variable]);
    }
  }
  for (const list of elements.values()) list.sort((a, b) => a.index - b.index);
  return { keys, elements, unknown };
}

const lists = configKeys.filter((key) => Array.isArray(key.default));

function readElement(
  name: string,
  text: string,
): { path: string; variable: ElementVariable } | undefined {
  const list = listOf(name);
  const rest = list && /^_(\d{1,6})(?:_(.+))?$/.exec(name.slice(list.environmentName.length));
  if (!list || !rest) return undefined;
  const [, index, field] = rest;
  const variable = { name, text, index: Number(index) };
  const isSteps = list.path === 'pipeline.steps';
  if (field === undefined) return isSteps ? undefined : { path: list.path, variable };
  if (!isSteps) return undefined;
  if (field === 'TYPE') return { path: list.path, variable: { ...variable, field: 'type' } };
  const param = /^PARAMS_(.+)$/.exec(field)?.[1]?.toLowerCase();
  return param ? { path: list.path, variable: { ...variable, field: { param } } } : undefined;
}

function listOf(name: string): ConfigKey | undefined {
  return lists.find((key) => name.startsWith(`${key.environmentName}_`));
}

function describeUnknown(name: string): string {
  const nearest = nearestName(name, [
    ...configKeys.map((key) => key.environmentName),
    ...elementNames(name),
  ]);
  return `${name}: unknown environment variable${nearest ? `, did you mean ${nearest}?` : ''}`;
}

/** Names of elements that one with these indexes could mean. */
function elementNames(name: string): string[] {
  const index = /_(\d{1,6})(?:_|$)/.exec(name)?.[1];
  if (index === undefined) return [];
  const param = /_PARAMS_(.+)$/.exec(name)?.[1];
  return lists.flatMap((key) => {
    const element = `${key.environmentName}_${index}`;
    if (key.path !== 'pipeline.steps') return [element];
    return [`${element}_TYPE`, `${element}_PARAMS_${param ?? 'NAME'}`];
  });
}
