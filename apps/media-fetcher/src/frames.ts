/** The content type of answers in frames. */
export const framesType = 'application/x-media-frames';

/** The head of a frame: the length of its JSON header in four bytes, big end first, then the header. */
export function frameHead(header: object): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const head = Buffer.allocUnsafe(4 + json.length);
  head.writeUInt32BE(json.length);
  head.set(json, 4);
  return head;
}
