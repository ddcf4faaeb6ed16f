import { describeMedia, type DigestedMedia } from './describe-media.ts';
import { type CallOptions } from './request-body.ts';

/**
 * An item as JSON, in pieces. The payload is put in as it is: a serializer would look at each of its characters, of which
 * none needs an escape.
 */
export function itemJson(
  item: DigestedMedia,
  returned: CallOptions['return'],
  head = {},
): Buffer[] {
  const { media } = item;
  const members = JSON.stringify({ ...head, ...describeMedia(item) });
  if (returned === 'none') return [Buffer.from(members)];
  const start = returned === 'data_uri' ? `data:${media.contentType};base64,` : '';
  return [
    Buffer.from(`${members.slice(0, -1)},"data":"${start}`),
    media.base64(),
    Buffer.from('"}'),
  ];
}
