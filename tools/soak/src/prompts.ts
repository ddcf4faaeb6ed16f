import { type TestImage } from './images.ts';

/** A short chat with a text that nobody sent before, and pictures before it. */
export function chatOf(
  text: string,
  { images = [], ...fields }: { images?: readonly TestImage[]; [field: string]: unknown } = {},
): object {
  const parts = images.map(({ uri }) => ({ type: 'image_url', image_url: { url: uri } }));
  return {
    model: 'sim/model',
    messages: [{ role: 'user', content: [...parts, { type: 'text', text }] }],
    ...fields,
  };
}
