import { isBase64 } from '@llm-d/json-document';
import { MediaError } from './media-error.ts';

/** The type of a video that is given inline as JPEG pictures between commas. */
export const frameListType = 'video/jpeg';

const comma = 0x2c;
const padding = 0x3d;
/** Base64 of a JPEG's first three bytes, FF D8 FF. */
const jpegStart = Buffer.from('/9j/');

const invalid = (message: string): MediaError =>
  new MediaError('media_data_uri_invalid', `parsing data URI: ${message}`);

/**
 * Checks the pictures of a `data:video/jpeg` URI from the first one's offset on: standard base64 with padding
 * between commas, each a JPEG, all together at most `limit` bytes. Throws MediaError.
 */
export function checkFrames(
  text: Buffer,
  payloadStart: number,
  limit: number,
): { readonly payloadStart: number; readonly decodedLength: number } {
  let decodedLength = 0;
  for (let start = payloadStart, number = 1; start <= text.length; number += 1) {
    const next = text.indexOf(comma, start);
    const end = next === -1 ? text.length : next;
    const length = end - start;
    const paddingLength = text[end - 1] !== padding ? 0 : text[end - 2] !== padding ? 1 : 2;
    if (length === 0 || length % 4 !== 0 || !isBase64(text, start, end - paddingLength)) {
      throw invalid(`frame ${number} is not base64 with padding`);
    }
    if (!text.subarray(start, start + jpegStart.length).equals(jpegStart)) {
      throw new MediaError(
        'media_type_not_allowed',
        `parsing data URI: frame ${number} is not a JPEG`,
      );
    }
    decodedLength += (length / 4) * 3 - paddingLength;
    if (decodedLength > limit) {
      throw new MediaError('media_too_large', `parsing data URI: video exceeds ${limit} bytes`, {
        limit,
        actual: decodedLength,
      });
    }
    start = end + 1;
  }
  return { payloadStart, decodedLength };
}
