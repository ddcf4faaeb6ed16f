/** What went wrong: nobody answers, not in time, the server is full, or it answered with an error. */
export type RedisErrorKind = 'unreachable' | 'timeout' | 'full' | 'reply';

/** Shows a Redis URL without user, password and query. */
export function redactRedisUrl(url: string): string {
  if (!URL.canParse(url)) {
    return 'redis';
  }
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/**
 * A failed command. Its text names the server and the cause, never credentials, keys or values; the error of
 * the client is left out because it carries the arguments of the command.
 */
export class RedisError extends Error {
  override readonly name = 'RedisError';
  readonly kind: RedisErrorKind;

  constructor(kind: RedisErrorKind, text: string) {
    super(text);
    this.kind = kind;
  }
}

/** Turns what ioredis raises into a RedisError; `server` is a redacted URL. */
export function toRedisError(error: unknown, server: string): RedisError {
  if (error instanceof RedisError) {
    return error;
  }
  const { name, message } = error instanceof Error ? error : new Error('unknown failure');
  if (name === 'ReplyError') {
    // The first word is the code; what follows may quote arguments.
    const [code = 'ERR'] = message.split(' ', 1);
    return new RedisError(code === 'OOM' ? 'full' : 'reply', `${server}: answered ${code}`);
  }
  if (message === 'Command timed out') {
    return new RedisError('timeout', `${server}: no answer in time`);
  }
  // Such as ENOTFOUND or ECONNREFUSED, from Node.
  const { code } = error as { code?: unknown };
  const why = typeof code === 'string' && /^[A-Z_]+$/.test(code) ? ` (${code})` : '';
  return new RedisError('unreachable', `${server}: not reachable${why}`);
}
