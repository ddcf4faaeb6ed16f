import { type Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';

/** Peers close idle connections after seconds, not earlier; a shorter life has other reasons, a restart for one. */
const shortestPeerIdleMs = 500;

/** Share of the peer's idle time after which a connection is not used again: the close may be on its way. */
const safeShare = 0.9;

/** How long an idle connection beyond the kept ones stays: between two legs of a request it rests for a moment only. */
const spareMs = 1_000;

/** What the connections to one upstream have in common. */
export class ConnectionPool {
  /** Idle connections that are kept. */
  readonly #maxIdle: number;
  #idle = 0;
  /** Longest idle time after which a connection is used again; learned from the peer's own closing. */
  reusableMs = Infinity;

  constructor(maxIdle: number) {
    this.#maxIdle = maxIdle;
  }

  /** undici calls this for every connection that it needs more. */
  readonly open = (origin: URL, options: object): Client => new PooledClient(origin, options, this);

  /** The peer closed a connection that was idle for so long. */
  learn(idleMs: number): void {
    if (idleMs < shortestPeerIdleMs) return;
    this.reusableMs = Math.min(this.reusableMs, idleMs * safeShare);
  }

  /** Counts a connection that has come to rest. */
  add(): void {
    this.#idle += 1;
  }

  /** Whether more are idle than are kept. */
  get isCrowded(): boolean {
    return this.#idle > this.#maxIdle;
  }

  /** An idle connection is in use again, or gone. */
  drop(): void {
    this.#idle -= 1;
  }
}

/** One connection at a time, and what has to be known to call again when it breaks. */
export class Connection {
  readonly #pool: ConnectionPool;
  #socket: Socket | undefined;
  /** Exchanges on it; more than one only under HTTP/2. */
  #active = 0;
  #isIdle = false;
  #idleSince = 0;
  /** Whether an earlier exchange ended well on it. */
  #isUsed = false;
  #isGathering = false;
  #isWatched = false;

  constructor(pool: ConnectionPool) {
    this.#pool = pool;
  }

  /** A connector that tells of the sockets it makes. */
  over(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      connect(options, (...result) => {
        if (result[1]) this.#opened(result[1]);
        callback(...result);
      });
    };
  }

  /** Gives up an idle connection that the peer may be closing at this moment, or any idle one. */
  refresh(isFreshWanted: boolean): void {
    if (!this.#isIdle) return;
    const { reusableMs } = this.#pool;
    const isOld = reusableMs !== Infinity && performance.now() - this.#idleSince > reusableMs;
    if (isFreshWanted || isOld) this.#socket?.destroy();
  }

  /** An exchange is about to be written. */
  begin(): ConnectionUse {
    this.#leaveIdle();
    this.#active += 1;
    const socket = this.#socket;
    return { isReused: this.#isUsed, socket, bytesRead: socket?.bytesRead ?? 0 };
  }

  /**
   * From here on what is written waits, and nobody is told to pause: undici writes the chunks of a body one by one, with a
   * system call for each, also where all of them are there.
   */
  gather(): void {
    this.#isGathering = true;
    this.#socket?.cork();
  }

  /** Sends what was gathered. */
  flush(): void {
    if (!this.#isGathering) return;
    this.#isGathering = false;
    this.#socket?.uncork();
  }

  /** An exchange has its whole answer. */
  rest(): void {
    this.#active -= 1;
    this.#isUsed = true;
    const socket = this.#socket;
    if (!socket || socket.destroyed || this.#active > 0) return;
    this.#isIdle = true;
    this.#idleSince = performance.now();
    this.#pool.add();
    if (this.#pool.isCrowded) this.#watch();
  }

  /** Closes the connection when it stays idle while there are enough others. */
  #watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    setTimeout(() => {
      this.#isWatched = false;
      if (!this.#isIdle || !this.#pool.isCrowded) return;
      if (performance.now() - this.#idleSince >= spareMs) this.#socket?.destroy();
      else this.#watch();
    }, spareMs).unref();
  }

  #opened(socket: Socket): void {
    this.#socket = socket;
    this.#active = 0;
    this.#isUsed = false;
    this.#isGathering = false;
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
    socket.write = (...args: unknown[]) => write(...args) || this.#isGathering;
    socket.once('end', () => {
      if (this.#isIdle) this.#pool.learn(performance.now() - this.#idleSince);
    });
    socket.once('close', () => {
      this.#leaveIdle();
    });
  }

  #leaveIdle(): void {
    if (!this.#isIdle) return;
    this.#isIdle = false;
    this.#pool.drop();
  }
}

/** What is known of a connection when an exchange begins on it. */
export interface ConnectionUse {
  readonly isReused: boolean;
  readonly socket: Socket | undefined;
  /** Bytes that had come on it before. */
  readonly bytesRead: number;
}

/** Whoever handles an exchange hears which connection carries it. */
export interface PooledHandler extends Dispatcher.DispatchHandler {
  connection?: Connection;
  /** Whether a connection must be new. */
  isFreshWanted: boolean;
}

/** undici's client of one connection, which knows how long that has been idle. */
class PooledClient extends Client {
  readonly #connection: Connection;

  constructor(origin: URL, options: object, pool: ConnectionPool) {
    const connection = new Connection(pool);
    const { connect } = options as { connect: buildConnector.connector };
    super(origin, { ...options, connect: connection.over(connect) });
    this.#connection = connection;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: PooledHandler): boolean {
    handler.connection = this.#connection;
    this.#connection.refresh(handler.isFreshWanted);
    return super.dispatch(options, handler);
  }
}
