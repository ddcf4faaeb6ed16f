import { type AsyncMode } from '@llm-d/pipeline';
import { invalidRequest } from './async-error.ts';
import { headerValues } from './header-values.ts';

/** The names of the headers of both generations, in lower case. */
export interface AsyncHeaderNames {
  readonly mode: readonly string[];
  readonly tenant: readonly string[];
  readonly timeout: readonly string[];
}

/**
 * The mode that a client asks for; undefined without one. Of several headers with a value all must say the same.
 *
 * @throws BadRequestError for an unknown mode, and for two different ones.
 */
export function readMode(
  rawHeaders: readonly string[],
  { mode: names }: AsyncHeaderNames,
): AsyncMode | undefined {
  const modes = new Set(headerValues(rawHeaders, names).map((value) => value.toLowerCase()));
  if (modes.size === 0) return undefined;
  if (modes.size > 1) throw contradiction(names);
  const [mode] = modes;
  if (mode === 'passthrough' || mode === 'enqueue' || mode === 'wait') return mode;
  const given = names.find((name) => headerValues(rawHeaders, [name]).length > 0);
  throw invalidRequest(`unknown ${given ?? ''} value, expected passthrough, enqueue or wait`);
}

const maxTenantBytes = 128;

/**
 * Whom a request belongs to, as the configured headers say and nothing else; `default` when they say nothing.
 *
 * @throws BadRequestError for two different tenants, and for a name that keys or headers could not carry.
 */
export function readTenant(
  rawHeaders: readonly string[],
  { tenant: names }: AsyncHeaderNames,
): string {
  const values = headerValues(rawHeaders, names);
  if (values.length > 1) throw contradiction(names);
  const [value] = values;
  if (value === undefined) return 'default';
  // Node reads header bytes as Latin-1.
  const bytes = Buffer.from(value, 'latin1');
  if (bytes.length > maxTenantBytes) {
    throw invalidTenant(`has ${bytes.length} bytes, the limit is ${maxTenantBytes}`);
  }
  const tenant = bytes.toString('utf8');
  // Two spellings of one name would be two names here and one elsewhere.
  if (!Buffer.from(tenant).equals(bytes)) throw invalidTenant('is not valid UTF-8');
  if (tenant.includes(':')) throw invalidTenant('contains a colon');
  if (/\p{Cc}/u.test(tenant)) throw invalidTenant('contains a control character');
  return tenant;
}

/** A tenant as the value of a header carries it. */
export const tenantHeaderValue = (tenant: string): string =>
  Buffer.from(tenant, 'utf8').toString('latin1');

/** Beyond this a number of seconds is no number any more but "as long as possible". */
const maxTimeoutDigits = 12;

/**
 * The asked seconds until the deadline; undefined where the default applies, Infinity for a number beyond all limits.
 *
 * @throws BadRequestError for two different values.
 */
export function readTimeoutSeconds(
  rawHeaders: readonly string[],
  { timeout: names }: AsyncHeaderNames,
): number | undefined {
  const values = headerValues(rawHeaders, names);
  if (values.length > 1) throw contradiction(names);
  const digits = /^\+?0*(\d+)$/.exec(values[0] ?? '')?.[1];
  if (digits === undefined) return undefined;
  if (digits.length > maxTimeoutDigits) return Number.POSITIVE_INFINITY;
  const seconds = Number(digits);
  return seconds > 0 ? seconds : undefined;
}

const maxKeyLength = 255;

/**
 * The client's `Idempotency-Key`; undefined when there is none.
 *
 * @throws BadRequestError for two keys, and for one that is too long or has other characters than visible ASCII.
 */
export function readIdempotencyKey(rawHeaders: readonly string[]): string | undefined {
  const values = headerValues(rawHeaders, ['idempotency-key']);
  const [key] = values;
  if (key === undefined) return undefined;
  if (values.length > 1) throw contradiction(['idempotency-key']);
  if (key.length > maxKeyLength || !/^[\x20-\x7e]+$/.test(key)) {
    throw invalidRequest(`idempotency-key: expected 1 to ${maxKeyLength} visible ASCII characters`);
  }
  return key;
}

function contradiction(names: readonly string[]): Error {
  return invalidRequest(`${names.join(' and ')}: the request has different values`);
}

function invalidTenant(problem: string): Error {
  return invalidRequest(`the tenant ${problem}`);
}
