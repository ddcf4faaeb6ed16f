import { randomUUID } from 'node:crypto';
import { type IncomingHttpHeaders } from 'node:http';

/** Headers that would let a client choose pods or play a phase; gone before routing (deploy.md 1.4). */
export const strippedOnPublic: readonly string[] = [
  'epp-profile',
  'x-llm-d-epp-profile',
  'x-gateway-destination-endpoint',
  'x-gateway-destination-endpoint-subset',
  'x-prefiller-host-port',
  'x-encoder-hosts-ports',
  'x-data-parallel-host-port',
  'x-kv-cache-source-host-port',
  'x-prefill-pin-host-port',
  'x-llm-d-pin-host-port',
  'prefer',
];

/** Belong to one connection; the runtime sets its own. */
const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
  'expect',
  'host',
];

/** A copy without the headers of this connection and without `names`. */
export function headersWithout(
  headers: IncomingHttpHeaders,
  names: readonly string[] = [],
): Record<string, string | string[]> {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const dropped = new Set([...hopByHop, ...names, ...named]);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !dropped.has(name)) kept[name] = value;
  }
  return kept;
}

/** The first value of a header. */
export const firstValue = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value;

/** The inbound request id when it is printable, without blanks and not too long; a new one otherwise. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const inbound = firstValue(headers['x-request-id']);
  return inbound !== undefined && /^[\x21-\x7e]{1,128}$/.test(inbound) ? inbound : randomUUID();
}
