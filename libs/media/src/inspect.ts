import { checkImageSize, imageSize } from './image-size.ts';
import { MediaError } from './media-error.ts';
import { MediaResult } from './media-result.ts';
import { allowedTypes, cleanType, decideType, unknownType } from './media-type.ts';
import { type MediaFetchOptions, type MediaLimits, type Modality } from './options.ts';
import { type Body } from './read-body.ts';
import { sniffType } from './sniff-type.ts';
import { hasWholeTail } from './tail-check.ts';

/** What the bytes of a download are judged by. */
export interface InspectRules {
  readonly modality: Modality;
  readonly options: MediaFetchOptions;
  readonly limits: MediaLimits;
  /** The origin's `Content-Type` header as it came. */
  readonly contentTypeHeader: string | undefined;
}

/** Decides what a whole body is, by media-fetcher.md 5.1 and 5.2; throws MediaError when it is not accepted. */
export function inspect({ bytes, isCloseDelimited }: Body, rules: InspectRules): MediaResult {
  const { limits, modality, options } = rules;
  const { contentCheck } = options;
  const doing = `downloading ${modality}`;
  const declared = cleanType(rules.contentTypeHeader ?? '');
  if (contentCheck === 'off') {
    return new MediaResult(bytes, declared ?? unknownType, { declaredType: declared });
  }
  if (bytes.length === 0) {
    throw new MediaError('media_content_invalid', `${doing}: the body is empty`);
  }
  const contentType = decideType({
    doing,
    modality,
    contentCheck,
    allowed: downloadedTypes(modality, options),
    declared,
    sniffed: sniffType(bytes),
  });
  if (modality !== 'image') {
    return new MediaResult(bytes, contentType, { declaredType: declared });
  }
  if ((isCloseDelimited || contentCheck === 'strict') && !hasWholeTail(contentType, bytes)) {
    throw isCloseDelimited
      ? new MediaError('media_truncated', `${doing}: the body ended early`)
      : new MediaError('media_content_invalid', `${doing}: the image has no end`);
  }
  const size = imageSize(contentType, bytes);
  checkImageSize(doing, size, contentCheck, limits);
  return new MediaResult(bytes, contentType, { size, declaredType: declared });
}

/** What may be downloaded: what may be passed on, and images that are converted before. */
function downloadedTypes(modality: Modality, options: MediaFetchOptions): readonly string[] {
  const allowed = allowedTypes(modality, options);
  const { transcodeImageTypes = [] } = options;
  return modality !== 'image' || allowed.length === 0
    ? allowed
    : [...allowed, ...transcodeImageTypes];
}
