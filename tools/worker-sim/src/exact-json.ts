/** A JSON object as parsed. Numbers that a double would change are kept as raw JSON, see {@link parseExact}. */
export type JsonObject = Record<string, unknown>;

type SourceReviver = (key: string, value: unknown, context: { source?: string }) => unknown;

/** The parts of JSON that Node 24 has and the ES2023 types do not describe. */
const json = JSON as unknown as {
  parse(text: string, reviver: SourceReviver): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): value is { rawJSON: string };
};

/** A number that `JSON.stringify` writes with exactly these digits. */
export const exactNumber = (digits: string): object => json.rawJSON(digits);

/**
 * Parses JSON without losing a digit: a number whose text a double would not give back
 * (beyond 2^53, `1.0`, `1e3`) becomes raw JSON, which `JSON.stringify` writes as it came.
 * Throws SyntaxError.
 */
export const parseExact = (text: string): unknown =>
  json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? exactNumber(source)
      : value,
  );

/** True for a JSON object: not an array, not null, not a raw number. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !json.isRawJSON(value);

/** One text per JSON value: keys sorted, numbers by their digits. Equal texts mean an unaltered value. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'undefined';
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key])}`);
  return `{${members.join(',')}}`;
}
