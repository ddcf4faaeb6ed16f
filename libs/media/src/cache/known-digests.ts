/** URLs whose digest is remembered; a few megabytes at most. */
const maxKnown = 16_384;

/** Which bytes a URL had when it was last looked at, so that index and bytes can be asked for at once. */
export class KnownDigests {
  /** In order of use, the oldest first. */
  readonly #digests = new Map<string, string>();

  /** The digest of a key; undefined when it is not known. */
  get(key: string): string | undefined {
    return this.#digests.get(key);
  }

  /** Remembers the digest of a key, in place of the key that was not used for longest. */
  set(key: string, digest: string): void {
    this.#digests.delete(key);
    this.#digests.set(key, digest);
    const [oldest] = this.#digests.keys();
    if (oldest !== undefined && this.#digests.size > maxKnown) {
      this.#digests.delete(oldest);
    }
  }

  /** Forgets a key. */
  delete(key: string): void {
    this.#digests.delete(key);
  }
}
