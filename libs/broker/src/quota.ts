import { randomUUID } from 'node:crypto';
import { type Connections } from './connections.ts';
import { type QuotaLease } from './dispatch.ts';
import { Gathering } from './gathering.ts';
import { type Guard } from './guard.ts';
import { quotaCounterKey, quotaKey } from './keys.ts';
import { type CompatCounters } from './options.ts';
import { runScript } from './script.ts';
import { type Settings } from './settings.ts';

const leaseMs = 30_000;
const renewMs = 10_000;

/**
 * How many dispatches each tenant has, over all processes. Leases instead of a counter: what a process held that died
 * is free after 30 s (2.2). With `compatCounters` it is a counter, and what was held is lost until it expires.
 */
export class Quota {
  readonly #connections: Connections;
  readonly #guard: Guard;
  readonly #settings: Settings;
  readonly #onError: (error: Error) => void;
  /** Token to key. */
  readonly #held = new Map<string, string>();
  /** Tokens by tenant; answers how many of them have a place. */
  readonly #acquiring: Gathering<string, number>;
  /** Tokens by key. */
  readonly #releasing: Gathering<string, void>;
  #timer: NodeJS.Timeout | undefined;

  constructor(core: {
    connections: Connections;
    guard: Guard;
    settings: Settings;
    onError: (error: Error) => void;
  }) {
    this.#connections = core.connections;
    this.#guard = core.guard;
    this.#settings = core.settings;
    this.#onError = core.onError;
    const { records } = core.connections;
    this.#acquiring = new Gathering((tenant, tokens) =>
      this.#lease(this.#keyOf(tenant), tokens, this.#settings.tenant(tenant).concurrency),
    );
    this.#releasing = new Gathering(async (key, tokens) => {
      const { compatCounters } = this.#settings;
      if (compatCounters) await this.#count(key, compatCounters, -tokens.length);
      else await core.guard.run('quota', () => records.zrem(key, ...tokens));
    });
  }

  /** See `Dispatch.acquireQuota`; never rejects. */
  async acquire(tenant: string): Promise<QuotaLease> {
    if (this.#settings.tenant(tenant).concurrency <= 0) {
      return lease('reserved', true, () => Promise.resolve());
    }
    const token = randomUUID();
    try {
      const { result, index } = await this.#acquiring.add(tenant, token);
      if (index >= result) {
        return lease('overflow', true, () => Promise.resolve());
      }
    } catch (error) {
      this.#report(error);
      return lease('reserved', false, () => Promise.resolve());
    }
    const key = this.#keyOf(tenant);
    this.#held.set(token, key);
    this.#timer ??= setInterval(() => void this.#renew(), renewMs).unref();
    return lease('reserved', true, () => this.#release(key, token));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #release(key: string, token: string): Promise<void> {
    if (!this.#held.delete(token)) {
      return;
    }
    try {
      await this.#releasing.add(key, token);
    } catch (error) {
      // It ends by itself.
      this.#report(error);
    }
  }

  async #renew(): Promise<void> {
    const held = Map.groupBy(this.#held.keys(), (token) => this.#held.get(token) ?? '');
    try {
      await Promise.all([...held].map(([key, tokens]) => this.#lease(key, tokens)));
    } catch (error) {
      this.#report(error);
    }
  }

  #keyOf(tenant: string): string {
    const { compatCounters } = this.#settings;
    return compatCounters ? quotaCounterKey(compatCounters.attribute, tenant) : quotaKey(tenant);
  }

  /** Leases the first of the tokens, up to the limit, or all without one; answers how many. */
  async #lease(key: string, tokens: readonly string[], limit?: number): Promise<number> {
    const { compatCounters } = this.#settings;
    return compatCounters
      ? await this.#count(key, compatCounters, tokens.length, limit)
      : Number(await this.#run('quota', key, [leaseMs, limit ?? '', ...tokens]));
  }

  /** Takes places of a counter, up to the limit; without one it keeps it, or gives back what is below 0. */
  async #count(
    key: string,
    { windowSeconds }: CompatCounters,
    places: number,
    limit?: number,
  ): Promise<number> {
    return Number(await this.#run('counter', key, [windowSeconds, limit ?? '', places]));
  }

  #run(script: 'quota' | 'counter', key: string, args: readonly (string | number)[]) {
    const { records } = this.#connections;
    return this.#guard.run('quota', () => runScript(records, script, [key], args));
  }

  #report(error: unknown): void {
    this.#onError(error instanceof Error ? error : new Error('quota: unknown failure'));
  }
}

function lease(
  classification: QuotaLease['classification'],
  isEnforced: boolean,
  release: () => Promise<void>,
): QuotaLease {
  return { classification, isEnforced, release, [Symbol.asyncDispose]: release };
}
