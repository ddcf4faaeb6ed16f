import { createHmac, hash } from 'node:crypto';
import { type Modality } from '../options.ts';

/** What decides whether two downloads are the same (media-fetcher.md 6.2). */
export interface KeyParts {
  /** Separates tenants; empty = one for all. */
  readonly namespace: string;
  readonly modality: Modality;
  readonly url: URL;
  /** Text of the rules and headers of the download: who may not fetch a URL must not read its copy. */
  readonly policy: string;
}

/**
 * The name of a URL in the cache: a keyed hash, so that neither the URL nor the signatures in its query can be
 * read from the store. Path and query count exactly as they are; fragment and a dot behind the host do not.
 */
export function urlKey(secret: string, { namespace, modality, url, policy }: KeyParts): string {
  const host = url.hostname.replace(/\.$/, '');
  const parts = [namespace, modality, url.protocol, host, url.port, url.pathname, url.search];
  return createHmac('sha256', secret === '' ? 'llm-d media cache' : secret)
    .update(JSON.stringify([...parts, policy]))
    .digest('hex');
}

/** The name of bytes: their SHA-256 in hex. */
export const digestOf = (bytes: Uint8Array): string => hash('sha256', bytes, 'hex');
