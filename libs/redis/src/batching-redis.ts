import { Redis } from 'ioredis';

type SendArguments = Parameters<Redis['sendCommand']>;

/**
 * A connection that sends the commands of one turn of the event loop with one system call. Unlike the automatic pipelines
 * of ioredis it holds nothing back for the answers of what was sent before, and adds no work to a command.
 */
export class BatchingRedis extends Redis {
  override sendCommand(...args: SendArguments): unknown {
    const { stream } = this;
    if (this.status === 'ready' && stream.writableCorked === 0) {
      stream.cork();
      setImmediate(() => stream.uncork());
    }
    return super.sendCommand(...args);
  }
}
