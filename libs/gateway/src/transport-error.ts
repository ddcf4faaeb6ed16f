/** How a call to an upstream can fail without an answer that counts. */
export type TransportFault =
  'connect' | 'timeout' | 'reset' | 'answer-too-large' | 'answer-undecodable';

/** A call that got no whole answer. Holds no address and no text of the upstream; the cause is for the log. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly fault: TransportFault;

  constructor(fault: TransportFault, options?: ErrorOptions) {
    super(messages[fault], options);
    this.fault = fault;
  }
}

const messages: Record<TransportFault, string> = {
  connect: 'no connection to the upstream',
  timeout: 'the upstream did not answer in time',
  reset: 'the upstream closed the connection before its answer was complete',
  'answer-too-large': 'the answer of the upstream is larger than allowed',
  'answer-undecodable': 'the answer of the upstream cannot be unpacked',
};

const timeoutCodes = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
]);
const connectCodes = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** Sorts an error of undici into the faults above. */
export function toTransportError(cause: unknown): TransportError {
  if (cause instanceof TransportError) return cause;
  const code = codeOf(cause);
  if (timeoutCodes.has(code)) return new TransportError('timeout', { cause });
  return new TransportError(connectCodes.has(code) ? 'connect' : 'reset', { cause });
}

/** Whether the end of what was written never left this machine. */
export function isWriteError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && error.syscall === 'write';
}

function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  // A name with several addresses fails with one error for each of them.
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
