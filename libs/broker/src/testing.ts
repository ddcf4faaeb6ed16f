import { type RedisServer, startRedis } from '@llm-d/testing';
import { Redis } from 'ioredis';
import { type Broker } from './broker.ts';
import { openBroker } from './open-broker.ts';
import { type BrokerOptions } from './options.ts';
import { type Accepted, type Submission } from './submission.ts';

/** A Redis as a broker wants it, with connections of its own to look at what was written. */
export interface BrokerBench extends AsyncDisposable {
  readonly server: RedisServer;
  readonly redis: Redis;
  /** Opens a broker on the server and waits until it is ready. It is closed with the bench. */
  open(options?: Partial<BrokerOptions>): Promise<Broker>;
  /** Closes the brokers that were opened since, and empties the server. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

/** Starts one for a test file. */
export async function brokerBench(args: readonly string[] = []): Promise<BrokerBench> {
  const server = await startRedis([...['--appendonly', 'yes', '--appendfsync', 'no'], ...args]);
  const redis = new Redis(server.url, { maxRetriesPerRequest: null, disconnectTimeout: 100 });
  redis.on('error', () => undefined);
  const brokers: Broker[] = [];
  const closeAll = async (): Promise<void> => {
    await Promise.all(brokers.splice(0).map((broker) => broker.close()));
  };
  const close = async (): Promise<void> => {
    await closeAll();
    redis.disconnect();
    await server.close();
  };
  return {
    server,
    redis,
    open: async (options) => {
      const broker = openBroker({ redis: { url: server.url }, lanes: [{ name: 'a' }], ...options });
      brokers.push(broker);
      await broker.untilReady(soon());
      return broker;
    },
    reset: async () => {
      await closeAll();
      await redis.flushall();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Aborts when a test should long be over. */
export const soon = (): AbortSignal => AbortSignal.timeout(15_000);

/** A request as the edge makes it. */
export function submission(changes: Partial<Submission> = {}): Submission {
  return {
    tenant: 'team-a',
    mode: 'enqueue',
    lane: 'a',
    tier: 'async',
    model: 'm',
    path: '/v1/chat/completions',
    contentType: 'application/json',
    body: Buffer.from('{"model":"m"}'),
    forwardedHeaders: [],
    timeoutMs: 60_000,
    ...changes,
  };
}

/** Submits and expects it to be accepted. */
export async function accept(broker: Broker, changes?: Partial<Submission>): Promise<Accepted> {
  const result = await broker.submit(submission(changes));
  if (!('generation' in result)) {
    throw new Error(`expected an accepted request, got ${JSON.stringify(result)}`);
  }
  return result;
}

/** An answer of a model server. */
export const answer = (text: string, status = 200) =>
  ({ kind: 'response', status, contentType: 'application/json', body: Buffer.from(text) }) as const;
