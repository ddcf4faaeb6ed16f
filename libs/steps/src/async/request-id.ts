import { requestIdHeader } from '@llm-d/gateway';
import { headerValues } from './header-values.ts';

/** Tells a client that its id could not be used; the answer's `x-request-id` has the one that counts. */
export const replacedHeader = 'x-llm-d-request-id-replaced';

/** Whether a text may name a request: 1 to 128 letters, digits or dashes (async-broker.md 1.3). */
export const isRequestId = (text: string): boolean => /^[A-Za-z0-9-]{1,128}$/.test(text);

/** Whether a client sent an id that was not taken. */
export function isIdReplaced(rawHeaders: readonly string[], requestId: string): boolean {
  const ids = headerValues(rawHeaders, [requestIdHeader]);
  return ids.length > 0 && !ids.includes(requestId);
}
