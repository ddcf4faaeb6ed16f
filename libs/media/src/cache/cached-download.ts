import { TotalBudget } from '../budget.ts';
import { withDeadline } from '../deadline.ts';
import { type DownloadCall, type Downloader } from '../downloader.ts';
import { inspect } from '../inspect.ts';
import { MediaError } from '../media-error.ts';
import { type MediaResult } from '../media-result.ts';
import { type MediaLimits } from '../options.ts';
import { type MediaCache } from './media-cache.ts';

/** What serves a URL out of a cache. */
export interface CachedDownload {
  readonly source: URL;
  readonly call: DownloadCall;
  readonly cache: MediaCache;
  readonly downloader: Downloader;
  readonly limits: MediaLimits;
  /** Text of the rules of the process that decide what may be read from a cache that others fill too. */
  readonly policyText: string;
}

/** A look into the cache within the deadline; its downloads serve other calls too and hold their own memory. */
export function cachedDownload(given: CachedDownload): Promise<MediaResult> {
  const { source, call, cache, downloader, limits, policyText } = given;
  const { modality, options, signal } = call;
  const { downloadTimeoutMs: timeoutMs, cacheMode: mode = 'default' } = options;
  const maxBytes = downloader.maxBytes(modality, options);
  const { allowedDomains, excusedDomains, allowPrivateNetworks } = options;
  const policy = `${JSON.stringify([allowedDomains, excusedDomains, allowPrivateNetworks])}${policyText}`;
  const key = cache.names.of({ modality, url: source, policy });
  return withDeadline({ modality, timeoutMs, signal }, async (item) => {
    const result = await cache.get(
      {
        key,
        limits: JSON.stringify({ ...options, inlineBytes: 0, cacheMode: '' }),
        mode,
        timeoutMs,
        judge: ({ entry, bytes }) => {
          const { contentTypeHeader, isCloseDelimited } = entry;
          const rules = { modality, options, limits, contentTypeHeader };
          return inspect({ bytes, isCloseDelimited }, rules);
        },
        load: async (load, flight) => {
          const memory = downloader.reserve(modality, options);
          const total = new TotalBudget(maxBytes);
          const alone = { modality, options, copies: 1, total, memory, signal: flight, load };
          try {
            return await downloader.run(source, alone);
          } finally {
            memory.release();
          }
        },
      },
      item.signal,
    );
    if (result.byteLength > maxBytes) {
      // A copy that was stored by a call with a larger limit.
      throw new MediaError(
        'media_too_large',
        `downloading ${modality}: it exceeds ${maxBytes} bytes`,
        { limit: maxBytes, actual: result.byteLength },
      );
    }
    call.total.add(result.byteLength * call.copies);
    await call.memory.grow(result.byteLength, item.signal);
    return result;
  });
}
