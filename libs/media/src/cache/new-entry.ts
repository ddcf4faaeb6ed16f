import { type CachedMedia } from './cache-tier.ts';
import { type CacheLoad } from './cache-query.ts';
import { type FreshnessRules, lifetimeOf } from './freshness.ts';
import { digestAside } from './keys.ts';

/** What is kept of a download; undefined when its answer may not be stored. */
export async function newEntry(
  { answer, stored }: CacheLoad,
  bytes: Buffer,
  now: number,
  rules: FreshnessRules,
): Promise<CachedMedia | undefined> {
  const lifetime = answer && lifetimeOf(answer.hops, now, rules);
  if (answer === undefined || lifetime === undefined) {
    return undefined;
  }
  const headers = answer.hops.at(-1)?.headers ?? {};
  const header = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  if (answer.isNotModified && stored !== undefined) {
    // The bytes are the ones that were confirmed; only their times change.
    const old = stored.entry;
    const saysNothing = header('cache-control') === undefined && header('expires') === undefined;
    const gainMs = saysNothing ? now - old.fetchedAt : 0;
    const times = saysNothing
      ? { freshUntil: old.freshUntil + gainMs, keepUntil: old.keepUntil + gainMs }
      : lifetime;
    const mustRevalidate = lifetime.mustRevalidate || (saysNothing && old.mustRevalidate);
    return { entry: { ...old, ...times, mustRevalidate, fetchedAt: now }, bytes: stored.bytes };
  }
  // After a redirect a validator would be shown to another origin than the one that gave it.
  const isDirect = answer.hops.length === 1;
  return {
    entry: {
      ...lifetime,
      digest: await digestAside(bytes),
      contentTypeHeader: answer.contentTypeHeader,
      isCloseDelimited: answer.isCloseDelimited,
      etag: isDirect ? header('etag') : undefined,
      lastModified: isDirect ? header('last-modified') : undefined,
      fetchedAt: now,
    },
    bytes,
  };
}
