import { JsonRaw, type JsonSpan } from '@llm-d/json-document';

/** The token counts of an answer or event; undefined when it has none that can be read. */
export function readUsage(usage: JsonSpan | undefined): unknown {
  if (usage?.kind !== 'object') return undefined;
  try {
    return usage.parse();
  } catch {
    return undefined;
  }
}

/** Adds up the token counts of two answers; what only one of them counts is kept. */
function sumUsage(left: unknown, right: unknown): unknown {
  if (typeof left === 'number' && typeof right === 'number') return left + right;
  if (!isObject(left) || !isObject(right)) return left ?? right;
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return Object.fromEntries([...names].map((name) => [name, sumUsage(left[name], right[name])]));
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The counts of all answers together; undefined when one of them was not counted. */
export function totalUsage(usages: readonly unknown[]): JsonRaw | undefined {
  if (usages.includes(undefined)) return undefined;
  return new JsonRaw([Buffer.from(JSON.stringify(usages.reduce(sumUsage)))]);
}
