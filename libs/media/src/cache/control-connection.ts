import { connectRedis, type RedisClient, type RedisError } from '@llm-d/redis';

/** Attempts to connect in a row that fail before the server counts as absent: a restart is none. */
const maxAttempts = 5;

/** Hears of a server before a request needs it. */
export interface ConnectionListener {
  absent(error: RedisError): void;
  ready(): void;
}

/** Opens the connection for everything but bytes. Throws an Error for a malformed URL. */
export function openControl(
  url: string,
  commandTimeoutMs: number,
  listener: ConnectionListener,
): RedisClient {
  let attempts = 0;
  const onError = (error: RedisError): void => {
    attempts += 1;
    if (attempts === maxAttempts) listener.absent(error);
  };
  const client = connectRedis({ url, name: 'media-control', commandTimeoutMs, onError });
  client.on('ready', () => {
    attempts = 0;
    listener.ready();
  });
  return client;
}
