import { randomUUID } from 'node:crypto';
import { type Connections } from './connections.ts';
import { type QuotaLease } from './dispatch.ts';
import { type Guard } from './guard.ts';
import { quotaCounterKey, quotaKey } from './keys.ts';
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
  }

  /** See `Dispatch.acquireQuota`; never rejects. */
  async acquire(tenant: string): Promise<QuotaLease> {
    const limit = this.#settings.tenant(tenant).concurrency;
    if (limit <= 0) {
      return lease('reserved', true, () => Promise.resolve());
    }
    const key = this.#keyOf(tenant);
    const token = randomUUID();
    try {
      const isHeld = await this.#guard.run('quota', () => this.#run(key, 'acquire', token, limit));
      if (isHeld !== 1) {
        return lease('overflow', true, () => Promise.resolve());
      }
    } catch (error) {
      this.#report(error);
      return lease('reserved', false, () => Promise.resolve());
    }
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
      await this.#guard.run('quota', () => this.#run(key, 'release', token, 0));
    } catch (error) {
      // It ends by itself.
      this.#report(error);
    }
  }

  async #renew(): Promise<void> {
    try {
      await this.#guard.run('quota', () =>
        Promise.all([...this.#held].map(([token, key]) => this.#run(key, 'renew', token, 0))),
      );
    } catch (error) {
      this.#report(error);
    }
  }

  #keyOf(tenant: string): string {
    const { compatCounters } = this.#settings;
    return compatCounters ? quotaCounterKey(compatCounters.attribute, tenant) : quotaKey(tenant);
  }

  #run(key: string, what: string, token: string, limit: number): Promise<unknown> {
    const { records } = this.#connections;
    const { compatCounters } = this.#settings;
    return compatCounters
      ? runScript(records, 'counter', [key], [what, compatCounters.windowSeconds, limit])
      : runScript(records, 'quota', [key], [what, token, leaseMs, limit]);
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
