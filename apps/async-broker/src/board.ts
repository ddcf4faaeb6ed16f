import { createHash, timingSafeEqual } from 'node:crypto';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import { Queue } from 'bullmq';
import { type FastifyInstance } from 'fastify';
import { Cluster, Redis } from 'ioredis';
import { type BrokerRedis } from '@llm-d/broker';

/** Who may look. */
export interface BoardOptions {
  /** Where it is served, without a slash at the end. */
  readonly path: string;
  readonly username: string;
  readonly password: string;
  readonly redis: BrokerRedis;
}

/** Shows the queues of lanes to people. */
export interface Board {
  addLane(lane: string): void;
  close(): Promise<void>;
}

/** A page must not wait longer for Redis. */
const commandTimeoutMs = 2_000;

/**
 * Mounts Bull Board behind basic authentication. It only reads: its buttons would move tickets past their records, so
 * requests that change something are refused here as well. What it shows are tickets, which hold names and no content.
 */
export function mountBoard(fastify: FastifyInstance, options: BoardOptions): Board {
  const { path, redis } = options;
  const adapter = new FastifyAdapter();
  adapter.setBasePath(path);
  const board = createBullBoard({ queues: [], serverAdapter: adapter });
  fastify.register(
    (scope, _options, done) => {
      scope.addHook('onRequest', (request, reply, next) => {
        if (!isAllowed(request.headers.authorization, options)) {
          void reply
            .code(401)
            .header('www-authenticate', 'Basic realm="async-broker", charset="UTF-8"')
            .send('authentication is required');
        } else if (request.method !== 'GET' && request.method !== 'HEAD') {
          void reply.code(403).send('this board only reads');
        } else next();
      });
      scope.register(adapter.registerPlugin(), { prefix: '/' });
      done();
    },
    { prefix: path },
  );
  const client = connect(redis);
  const queues: Queue[] = [];
  return {
    addLane(lane) {
      const queue = new Queue(lane, {
        connection: client,
        prefix: `{ab:${lane}}`,
        // A queue object writes its own idea of the limits into the shared metadata unless told not to (P6).
        skipMetasUpdate: true,
      });
      queue.on('error', () => undefined);
      queues.push(queue);
      board.addQueue(new BullMQAdapter(queue, { readOnlyMode: true, allowRetries: false }));
    },
    async close() {
      await Promise.allSettled(queues.map((queue) => queue.close()));
      client.disconnect();
    },
  };
}

function connect(redis: BrokerRedis): Redis | Cluster {
  const options = {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    commandTimeout: commandTimeoutMs,
    connectionName: 'async-broker-board',
  };
  const client =
    'url' in redis
      ? new Redis(redis.url, options)
      : new Cluster([...redis.clusterUrls], { redisOptions: options, enableOfflineQueue: false });
  // Without a listener ioredis prints to the console; the workers' connections tell the same.
  client.on('error', () => undefined);
  return client;
}

/** Compares in constant time. */
function isAllowed(header: string | undefined, { username, password }: BoardOptions): boolean {
  const [, given = ''] = /^basic +([a-z0-9+/=]+)$/i.exec(header ?? '') ?? [];
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  const wanted = digest(`${username}:${password}`);
  return timingSafeEqual(digest(Buffer.from(given, 'base64').toString('utf8')), wanted);
}
