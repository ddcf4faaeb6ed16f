import { type Download } from '../download.ts';
import { type Body, discard, singleHeader } from '../read-body.ts';
import { type CachedEntry } from './cache-tier.ts';
import { type CacheLoad } from './cache-query.ts';

/** The headers that ask whether a stored copy is still right; the strong sign wins over the date. */
export function validators({ etag, lastModified }: CachedEntry): Record<string, string> {
  if (etag !== undefined) {
    return { 'if-none-match': etag };
  }
  return lastModified === undefined ? {} : { 'if-modified-since': lastModified };
}

/** Tells the cache what came, and reads the body, which after a 304 is the stored one. */
export async function loadBody(
  { response, url, redirects, isAuthorized }: Download,
  load: CacheLoad,
  read: () => Promise<Body>,
): Promise<Body & { readonly contentTypeHeader: string | undefined }> {
  const { headers, statusCode, body: stream } = response;
  const { stored } = load;
  const isNotModified = statusCode === 304 && stored !== undefined;
  const contentTypeHeader = isNotModified
    ? stored.entry.contentTypeHeader
    : singleHeader(headers, 'content-type');
  let body: Body;
  if (isNotModified) {
    discard(stream);
    body = { bytes: stored.bytes, isCloseDelimited: stored.entry.isCloseDelimited };
  } else {
    body = await read();
  }
  const { isCloseDelimited } = body;
  const hops = [...(redirects ?? []), { url, headers, isAuthorized }];
  load.answer = { hops, isNotModified, contentTypeHeader, isCloseDelimited };
  return { ...body, contentTypeHeader };
}
