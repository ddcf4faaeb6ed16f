import { toRedisError } from '@llm-d/redis';
import { answerMs, type Connections } from './connections.ts';
import { BrokerInputError, BrokerUnavailableError } from './errors.ts';
import { type BrokerObserver } from './observer.ts';

/** Long bytes may take longer: this many per second at least. */
const bytesPerSecond = 32 * 1024 * 1024;
/** A full server needs time until a worker has drained something. */
const retryAfterFullSeconds = 5;

/**
 * Stands around everything that asks Redis for somebody who waits: no connection is a failure at once, no answer one
 * after 2 s, whatever the clients below would do (BullMQ waits for ever for a first connection).
 */
export class Guard {
  readonly #connections: Connections;
  readonly #observer: BrokerObserver;

  constructor(connections: Connections, observer: BrokerObserver) {
    this.#connections = connections;
    this.#observer = observer;
  }

  /** Runs `work`; rejects with BrokerUnavailableError, which carries `id`, or with a BrokerInputError of `work`. */
  async run<T>(
    name: string,
    work: () => Promise<T>,
    { id, bytes = 0 }: { readonly id?: string; readonly bytes?: number } = {},
  ): Promise<T> {
    const { records, queues, server } = this.#connections;
    const fail = (kind: BrokerUnavailableError['kind'], text: string): BrokerUnavailableError =>
      new BrokerUnavailableError(kind, text, {
        ...(id !== undefined && { id }),
        ...(kind === 'full' && { retryAfterSeconds: retryAfterFullSeconds }),
      });
    if (records.status !== 'ready' || queues.status !== 'ready') {
      throw fail('unreachable', `${server}: not connected`);
    }
    const startedAt = performance.now();
    const limitMs = answerMs + (bytes / bytesPerSecond) * 1_000;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<T>((resolve, reject) => {
        timer = setTimeout(() => reject(fail('timeout', `${server}: no answer in time`)), limitMs);
        work().then(resolve, reject);
      });
    } catch (error) {
      if (error instanceof BrokerUnavailableError || error instanceof BrokerInputError) {
        throw error;
      }
      const { kind, message } = toRedisError(error, server);
      throw fail(kind, message);
    } finally {
      clearTimeout(timer);
      this.#observer.onCommand?.(name, (performance.now() - startedAt) / 1_000);
    }
  }
}
