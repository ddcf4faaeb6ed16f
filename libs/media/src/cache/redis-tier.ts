import { randomUUID } from 'node:crypto';
import {
  connectRedis,
  redactRedisUrl,
  type RedisClient,
  type RedisError,
  toRedisError,
  untilReady,
} from '@llm-d/redis';
import {
  type CachedFailure,
  type CachedMedia,
  type CacheLock,
  nothing,
  type SharedTier,
  type TierAnswer,
} from './cache-tier.ts';
import { openControl } from './control-connection.ts';
import { digestOf } from './keys.ts';
import { KnownEntries } from './known-entries.ts';
import { Seal } from './seal.ts';
import { parseEntry, parseFailure, sealLabel, type StoredEntry } from './stored-values.ts';

/** Construction of a `RedisTier`; what is absent has the default of media-fetcher.md 6.7 and 6.8. */
export interface RedisTierConfig {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** Lets readers tell bytes that were written by those who know it from others. */
  readonly secret?: string;
  /** Longest wait for index, failures and locks; 200. */
  readonly controlTimeoutMs?: number;
  /** Longest wait for bytes; 1000. */
  readonly blobTimeoutMs?: number;
  /** Larger media are left out; 5 MB. */
  readonly maxValueBytes?: number;
  /** Bytes on their way to Redis; what would pass it is left out; 32 MB. */
  readonly maxPendingWriteBytes?: number;
  /** Told when Redis stops and starts to be used. Must not throw. */
  readonly onState?: (state: RedisTierState, reason: string) => void;
  /** Told of stored media that are not what was written. Must not throw. */
  readonly onAltered?: (reason: string) => void;
  readonly now?: () => number;
}

/** `full`: read but not written; `down`: not asked at all. */
export type RedisTierState = 'ok' | 'full' | 'down';

const mebibyte = 1024 * 1024;
/** Failures in a row after which Redis is left alone for `pauseMs`; then one command tries it again. */
const maxFailures = 5;
const pauseMs = 5_000;
/** Pause in writing after Redis said that it is full. */
const fullPauseMs = 30_000;
/** Bytes come over two connections of their own, so that no large one stands before a lock. */
const blobConnections = 2;

const releaseScript =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Derived bytes have names that say so. */
const indexKey = (key: string): string => `mf1:${key.startsWith('t:') ? '' : 'u:'}${key}`;

const unavailable: TierAnswer = { ...nothing, isUnavailable: true };

/** Redis as shared cache: an index by URL key, bytes by their digest, failures, and locks. */
export class RedisTier implements SharedTier {
  readonly name = 'redis';
  readonly #config: RedisTierConfig;
  readonly #server: string;
  readonly #now: () => number;
  readonly #control: RedisClient;
  readonly #blobs: readonly RedisClient[];
  readonly #seal: Seal;
  readonly #known = new KnownEntries();
  #turn = 0;
  #pendingBytes = 0;
  #failures = 0;
  #askAgainAt = 0;
  #writeAgainAt = 0;
  #state: RedisTierState = 'ok';

  /** Connects in the background. Throws an Error for a malformed URL. */
  constructor(config: RedisTierConfig) {
    const { url, controlTimeoutMs = 200, blobTimeoutMs = 1_000 } = config;
    this.#config = config;
    this.#seal = new Seal(config.secret ?? '');
    this.#server = redactRedisUrl(url);
    this.#now = config.now ?? Date.now;
    this.#control = openControl(url, controlTimeoutMs, {
      absent: (error) => this.#become('down', error.message),
      ready: () => {
        if (this.#failures < maxFailures) this.#works(); // else the next command finds out
      },
    });
    const blobs = { url, name: 'media-blobs', commandTimeoutMs: blobTimeoutMs };
    this.#blobs = Array.from({ length: blobConnections }, () => connectRedis(blobs));
  }

  /** What Redis is used for at this moment. */
  get state(): RedisTierState {
    return this.#state;
  }

  /** Resolves when all connections are there, or rejects with the reason of the signal. */
  async ready(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#control, ...this.#blobs].map((client) => untilReady(client, signal)));
  }

  async read(key: string): Promise<TierAnswer> {
    const known = this.#known.get(key, this.#now());
    if (known !== undefined) {
      // One round trip: index and failures are not asked for what is fresh.
      const media = await this.#media(key, known);
      if (media === undefined) return unavailable;
      if (media !== null) return { media, failure: undefined, isUnavailable: false };
    }
    const [index, negative] = await Promise.all([
      this.#run(() => this.#control.get(indexKey(key))),
      this.#run(() => this.#control.get(`mf1:n:${key}`)),
    ]);
    if (index === undefined && negative === undefined) {
      return unavailable;
    }
    const now = this.#now();
    const parsedFailure = negative ? parseFailure(negative) : undefined;
    const failure = parsedFailure && now < parsedFailure.until ? parsedFailure : undefined;
    const stored = index ? parseEntry(index) : undefined;
    if (stored === undefined || now >= stored.entry.keepUntil) {
      this.#known.delete(key);
      return { media: undefined, failure, isUnavailable: false };
    }
    const media = await this.#media(key, stored);
    if (media === null) {
      this.#known.delete(key);
    } else {
      this.#known.set(key, stored, now);
    }
    return { media: media ?? undefined, failure, isUnavailable: media === undefined };
  }

  /** The bytes of an entry with it, null when they are not there; undefined when nobody can tell. */
  async #media(
    key: string,
    { entry, seal, text }: StoredEntry,
  ): Promise<CachedMedia | null | undefined> {
    const reading = this.#bytes(entry.digest);
    const isWhole = this.#seal.check(seal, sealLabel(key, text));
    const read = await reading;
    const bytes = read && (await this.#checked(read, entry.digest, isWhole));
    return bytes && { entry, bytes };
  }

  async readBytes(digest: string): Promise<Buffer | undefined> {
    const read = await this.#bytes(digest);
    const isWhole = (bytes: Buffer): boolean => digestOf(bytes) === digest;
    return read ? ((await this.#checked(read, digest, isWhole)) ?? undefined) : undefined;
  }

  /** The bytes of a digest, null when they are not there; undefined when nobody can tell. */
  #bytes(digest: string): Promise<Buffer | null | undefined> {
    return this.#run(() => this.#blob().getBuffer(`mf1:b:${digest}`));
  }

  /** The bytes if they are the ones that were written; others are deleted, and are null. */
  async #checked(
    bytes: Buffer,
    digest: string,
    isWhole: (bytes: Buffer) => boolean,
  ): Promise<Buffer | null> {
    // Whoever may write to a shared Redis could otherwise put pictures into prompts.
    if (isWhole(bytes)) {
      return bytes;
    }
    this.#config.onAltered?.(`${this.#server}: stored media are not what was written`);
    await this.#run(() => this.#control.del(`mf1:b:${digest}`));
    return null;
  }

  async write(key: string, { entry, bytes }: CachedMedia): Promise<void> {
    const { maxValueBytes = 5 * mebibyte, maxPendingWriteBytes = 32 * mebibyte } = this.#config;
    // What others knew of the URL is over, whether or not the new one can be stored.
    this.#known.delete(key);
    const ttlMs = entry.keepUntil - this.#now();
    const size = bytes.length;
    if (size > maxValueBytes || ttlMs <= 0 || this.#pendingBytes + size > maxPendingWriteBytes) {
      return;
    }
    this.#pendingBytes += size;
    try {
      const blobKey = `mf1:b:${entry.digest}`;
      // -2 = missing. Bytes outlive every entry that names them, so their time only ever grows.
      const leftMs = await this.#write(() => this.#control.pttl(blobKey));
      if (leftMs === undefined) {
        return;
      }
      if (leftMs === -2) {
        const isStored = await this.#write(() => this.#blob().set(blobKey, bytes, 'PX', ttlMs));
        if (isStored === undefined) {
          return;
        }
      } else if (leftMs < ttlMs) {
        await this.#write(() => this.#control.pexpire(blobKey, ttlMs));
      }
      const text = JSON.stringify(entry);
      const stored = `${this.#seal.of(sealLabel(key, text), bytes)} ${text}`;
      await this.#write(() => this.#control.set(indexKey(key), stored, 'PX', ttlMs));
      await this.#run(() => this.#control.del(`mf1:n:${key}`));
    } finally {
      this.#pendingBytes -= size;
    }
  }

  async writeFailure(key: string, failure: CachedFailure): Promise<void> {
    const ttlMs = failure.until - this.#now();
    if (ttlMs > 0) {
      const value = JSON.stringify(failure);
      await this.#write(() => this.#control.set(`mf1:n:${key}`, value, 'PX', Math.ceil(ttlMs)));
    }
  }

  async delete(key: string): Promise<void> {
    this.#known.delete(key);
    await this.#run(() => this.#control.del(indexKey(key)));
    await this.#run(() => this.#control.del(`mf1:n:${key}`));
  }

  async lock(key: string, ttlMs: number): Promise<CacheLock | 'held' | undefined> {
    const name = `mf1:l:${key}`;
    const token = randomUUID();
    const answer = await this.#write(() => this.#control.set(name, token, 'PX', ttlMs, 'NX'));
    if (answer === undefined) {
      return undefined;
    }
    if (answer === null) {
      return 'held';
    }
    return {
      release: async () => {
        await this.#run(() => this.#control.eval(releaseScript, 1, name, token));
      },
    };
  }

  async isLocked(key: string): Promise<boolean> {
    return (await this.#run(() => this.#control.exists(`mf1:l:${key}`))) === 1;
  }

  close(): Promise<void> {
    for (const client of [this.#control, ...this.#blobs]) {
      client.disconnect();
    }
    return Promise.resolve();
  }

  #blob(): RedisClient {
    this.#turn += 1;
    return this.#blobs[this.#turn % this.#blobs.length] ?? this.#control;
  }

  /** A command that may be refused by a full server; undefined when it was not done. */
  async #write<T>(command: () => Promise<T>): Promise<T | undefined> {
    return this.#now() < this.#writeAgainAt ? undefined : this.#run(command);
  }

  /** The answer of a command; undefined when there is none. */
  async #run<T>(command: () => Promise<T>): Promise<T | undefined> {
    const now = this.#now();
    if (now < this.#askAgainAt) {
      return undefined;
    }
    if (this.#failures >= maxFailures) {
      this.#askAgainAt = now + pauseMs; // this command tries alone
    }
    try {
      const answer = await command();
      this.#works();
      return answer;
    } catch (cause) {
      this.#failed(toRedisError(cause, this.#server));
      return undefined;
    }
  }

  #works(): void {
    this.#failures = 0;
    this.#askAgainAt = 0;
    this.#become(this.#now() < this.#writeAgainAt ? 'full' : 'ok', `${this.#server}: answers`);
  }

  #failed(error: RedisError): void {
    if (error.kind === 'full') {
      this.#writeAgainAt = this.#now() + fullPauseMs;
    }
    if (error.kind === 'full' || error.kind === 'reply') {
      this.#works();
      return;
    }
    this.#failures += 1;
    if (this.#failures >= maxFailures) {
      this.#askAgainAt = this.#now() + pauseMs;
      this.#become('down', error.message);
    }
  }

  #become(state: RedisTierState, reason: string): void {
    if (state !== this.#state) {
      this.#state = state;
      this.#config.onState?.(state, reason);
    }
  }
}
