import { type RedisServerFacts, readServerFacts } from '@llm-d/redis';
import { Cluster, type Redis } from 'ioredis';
import { type BrokerHealth, type ServerProblem } from './broker.ts';
import { type Connections } from './connections.ts';
import { type Settings } from './settings.ts';

/** Memory must be looked at often enough that admission stops before the server is full. */
const lookMs = 1_000;
const oldest = [6, 2] as const;
const oldestForAof = [7, 2] as const;

function isOlder(version: string, [major, minor]: readonly [number, number]): boolean {
  const [foundMajor = 0, foundMinor = 0] = version.split('.').map(Number);
  return foundMajor < major || (foundMajor === major && foundMinor < minor);
}

/** What must change at a server that holds queues, each with the command that changes it (4.14). */
export function queueProblems(
  facts: RedisServerFacts,
  settings: Pick<Settings, 'requiresAppendOnlyFile' | 'ackDurability'>,
): { problems: ServerProblem[]; warnings: ServerProblem[] } {
  const problems: ServerProblem[] = [];
  const warnings: ServerProblem[] = [];
  const set = (key: string, value: string): string =>
    `redis-cli CONFIG SET ${key} ${value} && redis-cli CONFIG REWRITE`;
  if (isOlder(facts.version, oldest)) {
    const text = `redis_version: expected 6.2 or newer, got ${facts.version}`;
    problems.push({ text, command: 'redis-server --version' });
  }
  if (settings.ackDurability === 'aof' && isOlder(facts.version, oldestForAof)) {
    const text = `redis_version: ack_durability aof needs 7.2 or newer, got ${facts.version}`;
    problems.push({ text, command: 'redis-server --version' });
  }
  if (facts.evictionPolicy !== 'noeviction') {
    problems.push({
      text: `maxmemory-policy: expected noeviction, got ${facts.evictionPolicy}: queued requests would be lost`,
      command: set('maxmemory-policy', 'noeviction'),
    });
  }
  if (facts.role !== 'master') {
    const text = `role: expected master, got ${facts.role}: connect to its master`;
    problems.push({ text, command: 'redis-cli INFO replication' });
  }
  if (!facts.writesAppendOnlyFile) {
    (settings.requiresAppendOnlyFile ? problems : warnings).push({
      text: 'appendonly: expected yes, got no: a restart would lose what was accepted',
      command: set('appendonly', 'yes'),
    });
  }
  if (facts.maxMemoryBytes === 0) {
    warnings.push({
      text: 'maxmemory: expected a limit, got none: admission cannot stop before the machine is full',
      command: set('maxmemory', '4gb'),
    });
  }
  return { problems, warnings };
}

/** Looks at the server, or all masters of a cluster, every second. */
export class Health {
  readonly #connections: Connections;
  readonly #settings: Settings;
  readonly #waiting = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  readonly #onReady = (): void => void this.look();
  #found: Omit<BrokerHealth, 'isReady'> & { readonly isSeen: boolean } = {
    isSeen: false,
    problems: [],
    warnings: [],
    memoryRatio: 0,
  };
  /** Clock of Redis minus clock of this process. */
  #clockOffsetMs = 0;
  #isLooking = false;

  constructor(connections: Connections, settings: Settings) {
    this.#connections = connections;
    this.#settings = settings;
    connections.records.on('ready', this.#onReady);
    connections.queues.on('ready', this.#onReady);
    this.#timer = setInterval(() => void this.look(), lookMs);
    this.#timer.unref();
  }

  get memoryRatio(): number {
    return this.#found.memoryRatio;
  }

  serverNowMs(): number {
    return Date.now() + this.#clockOffsetMs;
  }

  /** See `Broker.health`. */
  state(): BrokerHealth {
    const { isSeen, ...found } = this.#found;
    return { isReady: isSeen && this.#isConnected() && found.problems.length === 0, ...found };
  }

  /** See `Broker.untilReady`. */
  async untilReady(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.state().isReady, signal);
  }

  /** Resolves when both connections take commands, whatever is wrong with the server. */
  async untilConnected(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#isConnected(), signal);
  }

  /** Looks now. Never rejects. */
  async look(): Promise<void> {
    if (this.#isLooking || !this.#isConnected()) {
      return;
    }
    this.#isLooking = true;
    const { records } = this.#connections;
    try {
      const nodes: readonly Redis[] =
        records instanceof Cluster ? records.nodes('master') : [records];
      const [all, time] = await Promise.all([
        Promise.all(nodes.map((node) => readServerFacts(node))),
        records.time(),
      ]);
      this.#clockOffsetMs = Number(time[0]) * 1_000 + Number(time[1]) / 1_000 - Date.now();
      const found = all.map((facts) => queueProblems(facts, this.#settings));
      const ratios = all.map(({ usedMemoryBytes, maxMemoryBytes }) =>
        maxMemoryBytes === 0 ? 0 : usedMemoryBytes / maxMemoryBytes,
      );
      this.#found = {
        isSeen: true,
        problems: found.flatMap(({ problems }) => problems),
        warnings: found.flatMap(({ warnings }) => warnings),
        memoryRatio: Math.max(0, ...ratios),
      };
      for (const tell of this.#waiting) {
        tell();
      }
    } catch {
      // The connection says so itself; what was found last stands until the next look.
    } finally {
      this.#isLooking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#connections.records.off('ready', this.#onReady);
    this.#connections.queues.off('ready', this.#onReady);
  }

  #isConnected(): boolean {
    return (
      this.#connections.records.status === 'ready' && this.#connections.queues.status === 'ready'
    );
  }

  async #until(isSo: () => boolean, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (isSo()) {
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const tell = (): void => {
      if (isSo()) resolve();
    };
    const leave = (): void => {
      reject(signal.reason instanceof Error ? signal.reason : new Error('redis: not ready'));
    };
    this.#waiting.add(tell);
    signal.addEventListener('abort', leave, { once: true });
    try {
      await promise;
    } finally {
      this.#waiting.delete(tell);
      signal.removeEventListener('abort', leave);
    }
  }
}
