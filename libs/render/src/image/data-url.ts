import { badRequest, RenderError } from '../errors.ts';

/**
 * The bytes behind an image URL. Only `data:` URLs in strict base64 are read here; the coordinator inlines remote
 * media before it calls us. The media type is ignored: what the bytes are decides.
 */
export function readImageUrl(url: string): Buffer {
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(url)?.[1]?.toLowerCase();
  if (scheme === 'http' || scheme === 'https') {
    throw badRequest('Remote image URLs are not fetched here; send the image as a data URL.');
  }
  if (scheme === 'file') {
    throw badRequest('Cannot load local files.');
  }
  if (scheme !== 'data') {
    throw badRequest('The URL must be either a HTTP, data or file URL.');
  }
  const comma = url.indexOf(',');
  if (comma === -1) {
    throw badRequest('The data URL has no comma in front of its data.');
  }
  if (!url.slice(0, comma).endsWith(';base64')) {
    throw new RenderError(
      501,
      'NotImplementedError',
      'Only base64 data URLs are supported for now.',
    );
  }
  return decodeBase64(url.slice(comma + 1));
}

/** Strict base64 with padding. Node's decoder drops what it does not know, so a wrong digit shows as a missing byte. */
function decodeBase64(data: string): Buffer {
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0;
  const bytes = Buffer.from(data, 'base64');
  const isStrict = data.length % 4 === 0 && bytes.length === (data.length / 4) * 3 - padding;
  // The URL-safe alphabet is the one thing that it reads beyond the standard.
  if (!isStrict || data.includes('-') || data.includes('_')) {
    throw badRequest('Non-base64 digit found');
  }
  return bytes;
}
