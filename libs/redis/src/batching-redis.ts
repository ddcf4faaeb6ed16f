import { Redis } from 'ioredis';

type SendArguments = Parameters<Redis['sendCommand']>;

/** Commands that wait for each other at most: the server begins with these while we make the next ones. */
const maxHeld = 8;

/**
 * A connection that sends some commands of one turn of the event loop with one system call. Unlike the automatic pipelines
 * of ioredis it holds nothing back for the answers of what was sent before, and adds no work to a command.
 */
export class BatchingRedis extends Redis {
  #held = 0;

  override sendCommand(...args: SendArguments): unknown {
    const { stream } = this;
    if (this.status === 'ready') {
      if (stream.writableCorked === 0) {
        this.#held = 0;
        stream.cork();
        setImmediate(() => stream.uncork());
      } else if (this.#held === maxHeld) {
        this.#held = 0;
        stream.uncork();
        stream.cork();
      }
      this.#held += 1;
    }
    return super.sendCommand(...args);
  }
}
