const MEDIA_KEYS = ['"image_url"', '"input_image"', '"video_url"', '"input_audio"', '"audio_url"'];

/** True for a request body that seems to hold images, video or audio; its JSON is not read. */
export function hasMedia(body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return MEDIA_KEYS.some((key) => bytes.includes(key));
}
