import {
  BatchingRedis,
  connectRedis,
  redactRedisUrl,
  type RedisError,
  toRedisError,
} from '@llm-d/redis';
import { Cluster, type RedisOptions } from 'ioredis';
import { BrokerInputError } from './errors.ts';
import { type BrokerRedis } from './options.ts';
import { defineScripts, type RedisLike } from './script.ts';

/** Longest wait for an answer; a frozen server is noticed after it. */
export const answerMs = 2_000;
/** A connection without an answer is cut after it, and what nobody waits for ends: long enough for the longest body. */
const silenceMs = 10_000;
const connectTimeoutMs = 2_000;
const maxReconnectDelayMs = 1_000;

const reconnectDelay = (attempt: number): number =>
  Math.min(50 * 2 ** Math.min(attempt - 1, 16), maxReconnectDelayMs);

/** Without the one key that ioredis types apart for each class. */
type Options = Omit<RedisOptions, 'replyMapping'>;

/** For commands that block or must outlive an outage: they wait for the connection and have no time limit. */
const patient: Options = {
  maxRetriesPerRequest: null,
  connectTimeout: connectTimeoutMs,
  retryStrategy: reconnectDelay,
  disconnectTimeout: 500,
  // As `connectRedis` does; the command is sent again after it.
  reconnectOnError: ({ message }) => (message.startsWith('READONLY') ? 2 : false),
};

/** All connections of one broker. They connect in the background and for ever. */
export class Connections {
  /** Shown in errors. */
  readonly server: string;
  /** For records. */
  readonly records: RedisLike;
  /** For queues: bodies on the other connection do not hold tickets up. */
  readonly queues: RedisLike;
  readonly #redis: BrokerRedis;
  readonly #onError: (error: RedisError) => void;
  readonly #open = new Set<RedisLike>();

  /** Throws BrokerInputError for an URL that cannot be one. */
  constructor(redis: BrokerRedis, onError: (error: RedisError) => void) {
    this.#redis = redis;
    this.#onError = onError;
    const urls = 'url' in redis ? [redis.url] : redis.clusterUrls;
    const isKnown = (url: string): boolean =>
      URL.canParse(url) && ['redis:', 'rediss:'].includes(new URL(url).protocol);
    if (urls.length === 0 || !urls.every(isKnown)) {
      throw new BrokerInputError('redis: expected URLs that begin with redis:// or rediss://');
    }
    this.server = urls.map(redactRedisUrl).join(', ');
    this.records = this.#impatient('records');
    defineScripts(this.records);
    this.queues = this.#impatient('queues');
    // Every Queue listens on the one connection.
    this.queues.setMaxListeners(0);
  }

  /** A connection for messages; the caller ends it. */
  subscriber(): RedisLike {
    return this.#patient('messages', { autoResubscribe: true });
  }

  /** A connection for a BullMQ Worker, and what ends it with those that the Worker makes of it. */
  worker(): { readonly client: RedisLike; readonly end: () => void } {
    const client = this.#patient('worker', {});
    const copies: RedisLike[] = [];
    // Both classes have it, with arguments of their own that pass through.
    const source = client as { duplicate(...args: unknown[]): RedisLike };
    const duplicate = source.duplicate.bind(source);
    source.duplicate = (...args) => {
      const copy = duplicate(...args);
      copies.push(copy);
      return copy;
    };
    const end = (): void => {
      this.end(client);
      // BullMQ does not end one that is about to connect again: it would do so for ever.
      for (const copy of copies) {
        copy.disconnect();
      }
    };
    return { client, end };
  }

  /** Ends one connection at once. */
  end(client: RedisLike): void {
    client.disconnect();
    this.#open.delete(client);
  }

  /** Ends all connections at once. */
  close(): void {
    for (const client of this.#open) {
      client.disconnect();
    }
    this.#open.clear();
  }

  #impatient(name: string): RedisLike {
    const redis = this.#redis;
    if ('url' in redis) {
      const client = connectRedis({
        ...{ url: redis.url, name: `ab-${name}`, onError: this.#onError, isBatching: true },
        ...{ silenceMs, connectTimeoutMs, maxReconnectDelayMs },
      });
      this.#open.add(client);
      return client;
    }
    return this.#cluster(redis.clusterUrls, name, false, {
      socketTimeout: silenceMs,
      connectTimeout: connectTimeoutMs,
      maxRetriesPerRequest: 0,
      disconnectTimeout: 500,
      autoResendUnfulfilledCommands: false,
    });
  }

  #patient(name: string, options: Options): RedisLike {
    const redis = this.#redis;
    if ('clusterUrls' in redis) {
      return this.#cluster(redis.clusterUrls, name, true, { ...patient, ...options });
    }
    const connectionName = `ab-${name}`;
    return this.#keep(new BatchingRedis(redis.url, { ...patient, ...options, connectionName }));
  }

  #cluster(
    urls: readonly string[],
    name: string,
    enableOfflineQueue: boolean,
    options: Options,
  ): RedisLike {
    const nodes = urls.map((url) => new URL(url));
    const [first] = nodes;
    const client = new Cluster(
      nodes.map(({ hostname, port }) => ({ host: hostname, port: Number(port || 6379) })),
      {
        enableOfflineQueue,
        clusterRetryStrategy: reconnectDelay,
        slotsRefreshTimeout: connectTimeoutMs,
        redisOptions: {
          ...options,
          connectionName: `ab-${name}`,
          username: decodeURIComponent(first?.username ?? ''),
          password: decodeURIComponent(first?.password ?? ''),
          ...(first?.protocol === 'rediss:' && { tls: {} }),
        },
      },
    );
    return this.#keep(client);
  }

  #keep(client: RedisLike): RedisLike {
    // Without a listener ioredis prints to the console.
    client.on('error', (error) => this.#onError(toRedisError(error, this.server)));
    this.#open.add(client);
    return client;
  }
}
