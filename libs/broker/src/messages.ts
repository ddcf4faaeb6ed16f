import { type Connections } from './connections.ts';
import { type CancelListener } from './dispatch.ts';
import { channels, parseMember } from './keys.ts';
import { type RedisLike } from './script.ts';

/** How often the subscription is tried for an answer; a half-open connection is cut after as long. */
const pingMs = 5_000;

/**
 * The one subscription of a process. It opens with the first listener, and subscribes again by itself after an outage;
 * what was sent meanwhile is lost, which `onReconnect` says.
 */
export class Messages {
  readonly #connections: Connections;
  readonly #cancelListeners = new Set<CancelListener>();
  #client: RedisLike | undefined;
  #ping: NodeJS.Timeout | undefined;
  #onDone: (member: string) => void = () => undefined;
  #onReconnect: () => void = () => undefined;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  /** Sets who is told that a request ended (its member), and that messages may have been lost. */
  listen(onDone: (member: string) => void, onReconnect: () => void): void {
    this.#onDone = onDone;
    this.#onReconnect = onReconnect;
  }

  /** Returns the function that ends it. */
  onCancel(listener: CancelListener): () => void {
    this.#cancelListeners.add(listener);
    this.open();
    return () => void this.#cancelListeners.delete(listener);
  }

  /** Subscribes, once. */
  open(): void {
    if (this.#client !== undefined) {
      return;
    }
    const client = this.#connections.subscriber();
    this.#client = client;
    client.on('message', (channel: string, text: string) => this.#receive(channel, text));
    client.on('ready', () => this.#onReconnect());
    void this.#subscribe(client);
    this.#ping = setInterval(() => void this.#check(client), pingMs);
    this.#ping.unref();
  }

  close(): void {
    clearInterval(this.#ping);
    if (this.#client !== undefined) {
      this.#connections.end(this.#client);
    }
  }

  async #subscribe(client: RedisLike): Promise<void> {
    try {
      await client.subscribe(channels.done, channels.cancel);
      // What ended before the server knew of the subscription.
      this.#onReconnect();
    } catch {
      // The connection was closed for good: everything else is told by its own calls.
    }
  }

  async #check(client: RedisLike): Promise<void> {
    if (client.status !== 'ready' || !('stream' in client)) {
      return;
    }
    const late = setTimeout(() => client.disconnect(true), pingMs - 1_000);
    late.unref();
    try {
      await client.ping();
    } catch {
      // The connection says so itself and comes back.
    } finally {
      clearTimeout(late);
    }
  }

  #receive(channel: string, text: string): void {
    if (channel === channels.done) {
      this.#onDone(text);
      return;
    }
    const [member = '', reason] = text.split(' ');
    const ref = parseMember(member);
    if (ref !== undefined && (reason === 'delete' || reason === 'disconnect')) {
      for (const listener of this.#cancelListeners) {
        listener(ref, reason);
      }
    }
  }
}
