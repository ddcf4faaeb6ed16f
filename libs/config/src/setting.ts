import { z } from 'zod';
import { parseDuration } from './duration.ts';

/**
 * One key of the file. `read` turns the value of the file, or the text of an environment variable
 * or flag, into what the program uses; undefined refuses it with the expectation.
 */
export function setting<T>(expectation: string, read: (value: unknown) => T | undefined) {
  return z.unknown().transform((value, context): T => {
    const result = read(value);
    if (result !== undefined) return result;
    context.addIssue({ code: 'custom', message: expectation });
    return z.NEVER;
  });
}

/** Any text. */
export const text = setting('a text', readText);

/** Go's duration syntax, as milliseconds. */
export const duration = setting('a duration such as 30s', (value) =>
  typeof value === 'string' ? parseDuration(value) : undefined,
);

/** True or false. */
export const boolean = setting('true or false', (value) =>
  typeof value === 'boolean' ? value : undefined,
);

/** A boolean, or a text that Go takes for one; for keys that the environment can set. */
export const booleanOrText = z.preprocess((value) => {
  if (typeof value !== 'string') return value;
  if (/^(?:1|t|true)$/i.test(value)) return true;
  return /^(?:0|f|false)$/i.test(value) ? false : value;
}, boolean);

/** A whole number within bounds; `8192.0` counts as whole. */
export function integer(expectation: string, least: number, most = Number.MAX_SAFE_INTEGER) {
  return setting(expectation, (value) =>
    typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most
      ? value
      : undefined,
  );
}

/** Such a number, or its digits as text; for keys that the environment can set. */
export function integerOrText(...bounds: Parameters<typeof integer>) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^[+-]?\d+$/.test(value) ? Number(value) : value),
    integer(...bounds),
  );
}

/** The address of an HTTP server; user and password may stand in it, escaped as in every URL. */
export function httpAddress(expectation: string) {
  const address = setting(expectation, (value) =>
    typeof value === 'string' && /^https?:\/\/[^/]/i.test(value) && URL.canParse(value)
      ? value
      : undefined,
  );
  return address
    .refine(hasReadableCredentials, { error: 'user and password with % as %25' })
    .refine((text) => !/[?#]/.test(text), { error: 'an address without query and fragment' });
}

function hasReadableCredentials(address: string): boolean {
  const { username, password } = new URL(address);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

/** One of a closed set of names. */
export function oneOf<const Name extends string>(...names: readonly Name[]) {
  return setting(`one of ${names.join(', ')}`, (value) => names.find((name) => name === value));
}

/** A list of texts; one text is split at its commas. */
export const textList = setting('a list of texts', readTextList);

const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;

/** A list of header names, lower-cased, each named once. */
export const headerNames = setting('a list of different header names', (value) => {
  const names = readTextList(value)?.map((name) => name.toLowerCase());
  const isValid = names?.every((name) => headerName.test(name)) ?? false;
  return isValid && new Set(names).size === names?.length ? names : undefined;
});

/** A header name as it is sent. */
export const header = setting('a header name', (value) =>
  typeof value === 'string' && headerName.test(value.toLowerCase()) ? value : undefined,
);

function readText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function readTextList(value: unknown): string[] | undefined {
  const items: unknown = typeof value === 'string' ? splitList(value) : value;
  if (!Array.isArray(items)) return undefined;
  const texts = items.filter((item) => typeof item === 'string');
  return texts.length === items.length ? texts.map((item) => item.trim()) : undefined;
}

function splitList(list: string): string[] {
  return list === '' ? [] : list.split(',');
}
