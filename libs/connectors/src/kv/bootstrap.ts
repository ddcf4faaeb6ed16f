import { isIPv6 } from 'node:net';

/** Top-level members to set in a body; undefined removes one. */
export type BootstrapEdits = Readonly<Record<string, string | number | undefined>>;

/** A gateway named a pod in a way that cannot be used. The text it sent is not repeated. */
export class EndpointError extends Error {
  override readonly name = 'EndpointError';

  constructor() {
    super('the reserved endpoint is not host:port');
  }
}

/** Where SGLang prefill pods listen for decode pods unless they are told otherwise. */
export const defaultBootstrapPort = 8998;

/** `SGLANG_BOOTSTRAP_PORT` as a port; a text that is none is rejected in favour of the default. */
export function parseBootstrapPort(text: string | undefined): {
  readonly port: number;
  readonly isRejected: boolean;
} {
  if (!text) return { port: defaultBootstrapPort, isRejected: false };
  const port = toPort(text);
  return { port: port ?? defaultBootstrapPort, isRejected: port === undefined };
}

/**
 * The host of `host:port`, an IPv6 address without its brackets.
 *
 * @throws EndpointError
 */
export function hostOf(endpoint: string): string {
  const [, bracketed, plain, port = ''] =
    /^(?:\[([^\]]+)\]|([^\s:[\]/@]+)):(\d+)$/.exec(endpoint) ?? [];
  const host = bracketed ?? plain;
  const isHost = bracketed === undefined || isIPv6(bracketed);
  if (host === undefined || !isHost || toPort(port) === undefined) throw new EndpointError();
  return host;
}

function toPort(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}
