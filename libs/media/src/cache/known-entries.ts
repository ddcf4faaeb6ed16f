import { type StoredEntry } from './stored-values.ts';

/** Entries that are remembered; some megabytes at most. */
const maxKnown = 16_384;
/** How long the store is not asked for an entry again, as long as the memory tier does not ask for its bytes. */
const maxAgeMs = 60_000;

/** What the store has said of URLs lately, so that their bytes can be asked for at once. */
export class KnownEntries {
  /** In order of their last answer, the oldest first. */
  readonly #entries = new Map<string, { readonly stored: StoredEntry; readonly until: number }>();

  /** The entry of a key, as long as it is fresh; undefined when the store has to be asked. */
  get(key: string, now: number): StoredEntry | undefined {
    const known = this.#entries.get(key);
    return known !== undefined && now < known.until ? known.stored : undefined;
  }

  /** Remembers an entry, in place of the one that was answered longest ago. */
  set(key: string, stored: StoredEntry, now: number): void {
    this.#entries.delete(key);
    const { freshUntil, keepUntil } = stored.entry;
    const until = Math.min(now + maxAgeMs, freshUntil, keepUntil);
    this.#entries.set(key, { stored, until });
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size > maxKnown) {
      this.#entries.delete(oldest);
    }
  }

  /** Forgets a key. */
  delete(key: string): void {
    this.#entries.delete(key);
  }
}
