import { createHmac, hash, subtle } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Modality } from '../options.ts';

/** What decides whether two downloads are the same (media-fetcher.md 6.2). */
export interface KeyParts {
  readonly modality: Modality;
  readonly url: URL;
  /** Text of the rules and headers of the download: who may not fetch a URL must not read its copy. */
  readonly policy: string;
}

/** Names that are remembered, some megabytes: an HMAC takes a tenth of the time of a hit. */
const maxNames = 4_096;

/**
 * The names of URLs in the cache: keyed hashes, so that neither a URL nor the signatures in its query can be
 * read from the store. Path and query count exactly as they are; fragment and a dot behind the host do not.
 */
export class UrlNames {
  readonly #secret: string;
  readonly #namespace: string;
  readonly #names = new LRUCache<string, string>({ max: maxNames });

  /** `namespace` separates tenants; empty = one for all. */
  constructor(secret: string, namespace: string) {
    this.#secret = secret === '' ? 'llm-d media cache' : secret;
    this.#namespace = namespace;
  }

  /** Hexadecimal. */
  of({ modality, url, policy }: KeyParts): string {
    const host = url.hostname.replace(/\.$/, '');
    const place = [url.protocol, host, url.port, url.pathname, url.search];
    const text = JSON.stringify([this.#namespace, modality, ...place, policy]);
    const known = this.#names.get(text);
    if (known !== undefined) {
      return known;
    }
    const name = createHmac('sha256', this.#secret).update(text).digest('hex');
    this.#names.set(text, name);
    return name;
  }
}

/** The name of bytes: their SHA-256 in hex. */
export const digestOf = (bytes: Uint8Array): string => hash('sha256', bytes, 'hex');

/** Hashing so many bytes takes a third of a millisecond; photos that come together would hold the event loop one by one. */
const largeBytes = 512 * 1024;

/** As `digestOf`, large bytes in a thread. */
export async function digestAside(bytes: Buffer): Promise<string> {
  if (bytes.length < largeBytes) {
    return digestOf(bytes);
  }
  const digest = await subtle.digest('SHA-256', bytes);
  return Buffer.from(digest).toString('hex');
}
