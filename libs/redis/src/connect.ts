import { Redis } from 'ioredis';
import { BatchingRedis } from './batching-redis.ts';
import { redactRedisUrl, type RedisError, toRedisError } from './redis-error.ts';

/** A connection made by `connectRedis`; the owner calls `disconnect`. */
export type RedisClient = Redis;

/** How one connection behaves. */
export interface RedisConnectOptions {
  /** `redis://` or `rediss://`, with credentials and database where needed. */
  readonly url: string;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
  /** Longest wait for the answer of one command; absent = the caller's own limits spare it a timer for each. */
  readonly commandTimeoutMs?: number;
  /** A connection on which no answer comes for so long is cut; twice the command timeout when absent. */
  readonly silenceMs?: number;
  /** Longest wait for TCP and TLS; 500 when absent. */
  readonly connectTimeoutMs?: number;
  /** Longest pause between two attempts to connect; 2000 when absent. */
  readonly maxReconnectDelayMs?: number;
  /** Whether commands of one turn of the event loop are sent in groups, which spares system calls; false when absent. */
  readonly isBatching?: boolean;
  /** Told of every failure of the connection itself. Must not throw. */
  readonly onError?: (error: RedisError) => void;
}

/** Where the caller says nothing. */
const longestSilenceMs = 10_000;

/** Pause before the first attempt to connect again; it doubles with each failure. */
const firstReconnectDelayMs = 50;

/**
 * Opens a connection that never makes its user wait longer than the command timeout: without a connection a
 * command fails at once instead of queueing, and is not sent again after a reconnect. Connects in the
 * background and for ever. Throws an Error for a malformed URL.
 */
export function connectRedis(options: RedisConnectOptions): RedisClient {
  const { url, onError, maxReconnectDelayMs = 2_000, connectTimeoutMs = 500 } = options;
  const { commandTimeoutMs: commandTimeout, silenceMs } = options;
  const isKnown = URL.canParse(url) && ['redis:', 'rediss:'].includes(new URL(url).protocol);
  if (!isKnown) {
    throw new Error('redis: expected a URL that begins with redis:// or rediss://');
  }
  const Client = options.isBatching ? BatchingRedis : Redis;
  const client = new Client(url, {
    connectionName: options.name,
    ...(commandTimeout !== undefined && { commandTimeout }),
    // What piled up behind the first command ends with the connection.
    socketTimeout:
      silenceMs ?? (commandTimeout === undefined ? longestSilenceMs : 2 * commandTimeout),
    connectTimeout: connectTimeoutMs,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Its timer runs on after the end of a connection that was lost before.
    disconnectTimeout: 500,
    // A master that became a replica: the address may lead to the new one.
    reconnectOnError: ({ message }) => message.startsWith('READONLY'),
    retryStrategy: (attempt) =>
      Math.min(firstReconnectDelayMs * 2 ** Math.min(attempt - 1, 16), maxReconnectDelayMs),
  });
  const server = redactRedisUrl(url);
  // Without a listener ioredis prints to the console.
  client.on('error', (error) => onError?.(toRedisError(error, server)));
  return client;
}

/** Resolves when the connection takes commands, or rejects with the reason of the signal. */
export async function untilReady(client: RedisClient, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (client.status === 'ready') {
    return;
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = (): void => {
    reject(signal.reason instanceof Error ? signal.reason : new Error('redis: not ready'));
  };
  client.once('ready', resolve);
  signal.addEventListener('abort', leave, { once: true });
  try {
    await promise;
  } finally {
    client.off('ready', resolve);
    signal.removeEventListener('abort', leave);
  }
}
