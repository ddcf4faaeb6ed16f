import { randomBytes } from 'node:crypto';

/** Members of a chat body before `messages`. */
export type ChatHead = Readonly<Record<string, string | number | boolean>>;

const sentence = 'Paged attention keeps the cache of keys and values in blocks of sixteen tokens. ';

/** English text of a length in bytes. */
export const prose = (bytes: number): string =>
  sentence.repeat(Math.ceil(bytes / sentence.length)).slice(0, bytes);

const pngHead = Buffer.from('89504e470d0a1a0a0000000d4948445200000280000001e0080200000', 'hex');

/** A `data:` URI whose base64 text has a length; the picture is the header of a PNG before noise. */
export function imageUri(base64Bytes: number): string {
  const bytes = Buffer.concat([pngHead, randomBytes((base64Bytes / 4) * 3 - pngHead.length)]);
  return `data:image/png;base64,${bytes.toString('base64')}`;
}

/** A chat body of one message: a text, and images of the given base64 lengths. The head comes first. */
export function chatBody(head: ChatHead, text: string, images: readonly number[] = []): Buffer {
  const parts = images.map((bytes) => ({ type: 'image_url', image_url: { url: imageUri(bytes) } }));
  const content = parts.length > 0 ? [{ type: 'text', text }, ...parts] : text;
  return Buffer.from(JSON.stringify({ ...head, messages: [{ role: 'user', content }] }));
}

/** Token ids as a tokenizer with 150,000 entries gives them. */
export const tokenIds = (count: number): number[] =>
  Array.from({ length: count }, (_, i) => (i * 7919) % 151_643);
