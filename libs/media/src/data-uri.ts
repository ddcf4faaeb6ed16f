import { isBase64 } from '@llm-d/json-document';
import { checkImageSize, imageHeaderBytes, imageSize } from './image-size.ts';
import { MediaError, type MediaErrorDetails } from './media-error.ts';
import {
  allowedTypes,
  cleanType,
  decideType,
  isAllowedType,
  typeNotAllowed,
} from './media-type.ts';
import {
  type ContentCheck,
  defaultMediaLimits,
  maxItemBytes,
  type MediaFetchOptions,
  type MediaLimits,
  type Modality,
} from './options.ts';
import { checkFrames, frameListType } from './frame-list.ts';
import { sniffBytes, sniffType } from './sniff-type.ts';

/** Longest head of a `data:` URI, up to the comma. */
const maxHeadBytes = 1024;

const doing = 'parsing data URI';
const padding = 0x3d;

/** Where the parts of a checked `data:` URI lie; the payload is standard base64 with padding. */
export interface DataUri {
  /** Clean type token. */
  readonly contentType: string;
  /** Offset of the first payload byte; the payload ends with the URI. */
  readonly payloadStart: number;
  /** Bytes that the payload decodes to. */
  readonly decodedLength: number;
}

/** What the check of a `data:` URI needs of the options of a call. */
export type DataUriOptions = Pick<
  MediaFetchOptions,
  'maxDownloadBytes' | 'maxModalityBytes' | 'contentCheck' | 'allowedImageTypes' | 'allowedTypes'
>;

function invalid(message: string, details?: MediaErrorDetails): MediaError {
  return new MediaError('media_data_uri_invalid', `${doing}: ${message}`, details);
}

/** The first `byteLength` decoded bytes, or fewer at the end. */
function decodeHead(text: Buffer, payloadStart: number, byteLength: number): Buffer {
  const end = payloadStart + Math.ceil(byteLength / 3) * 4;
  return Buffer.from(text.toString('latin1', payloadStart, Math.min(end, text.length)), 'base64');
}

/** Reads the head up to its comma: `data:type/token[;name=value]*;base64`, blanks around each part allowed. */
function parseHead(head: string): string {
  const [type = '', ...parameters] = head.slice('data:'.length).split(';');
  if (!parameters.some((parameter) => parameter.trim().toLowerCase() === 'base64')) {
    throw invalid('only base64 payloads are accepted, ";base64" is missing');
  }
  const contentType = cleanType(type);
  if (contentType === undefined) {
    throw invalid(type.trim() === '' ? 'the media type is missing' : 'the media type is malformed');
  }
  return contentType;
}

/**
 * Checks a `data:` URI given as bytes (ASCII, no JSON escapes) by media-fetcher.md 5.3 and returns where its
 * parts lie. Throws MediaError. The payload is scanned in place, at most 64 KB of it are decoded.
 */
export function parseDataUri(
  bytes: Uint8Array,
  options: DataUriOptions,
  modality: Modality = 'image',
  limits: MediaLimits = defaultMediaLimits,
): DataUri {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const comma = text.subarray(0, maxHeadBytes + 1).indexOf(',');
  const head = text.toString(
    'latin1',
    0,
    comma === -1 ? Math.min(text.length, maxHeadBytes) : comma,
  );
  if (!/^data:/i.test(head)) {
    throw invalid('it does not begin with "data:"');
  }
  if (comma === -1) {
    throw invalid(
      text.length > maxHeadBytes
        ? `no comma in the first ${maxHeadBytes} bytes`
        : 'the comma before the payload is missing',
    );
  }
  const { contentCheck } = options;
  const contentType = parseHead(head);
  const allowed = allowedTypes(modality, options);
  const isFrameList = modality === 'video' && contentType === frameListType;
  // A list of frames exists inline only, so it is on no list for downloads.
  const isTaken = isFrameList && options.allowedTypes?.video === undefined;
  if (!isTaken && !isAllowedType(allowed, contentType)) {
    throw typeNotAllowed(doing, contentType);
  }

  if (isFrameList) {
    return { contentType, ...checkFrames(text, comma + 1, maxItemBytes(modality, options)) };
  }
  const payloadStart = comma + 1;
  const payloadLength = text.length - payloadStart;
  if (payloadLength === 0) {
    throw invalid('the payload is empty');
  }
  if (payloadLength % 4 !== 0) {
    throw invalid('the payload is not base64 with padding, its length is not a multiple of 4');
  }
  const paddingLength = text.at(-1) !== padding ? 0 : text.at(-2) !== padding ? 1 : 2;
  const decodedLength = (payloadLength / 4) * 3 - paddingLength;
  const limit = maxItemBytes(modality, options);
  if (decodedLength > limit) {
    throw new MediaError('media_too_large', `${doing}: ${modality} exceeds ${limit} bytes`, {
      limit,
      actual: decodedLength,
    });
  }
  if (!isBase64(text, payloadStart, text.length - paddingLength)) {
    throw invalid('the payload holds characters that are not standard base64');
  }
  checkContent(text, payloadStart, { contentType, modality, allowed, contentCheck, limits });
  return { contentType, payloadStart, decodedLength };
}

interface ContentRules {
  readonly contentType: string;
  readonly modality: Modality;
  readonly allowed: readonly string[];
  readonly contentCheck: ContentCheck;
  readonly limits: MediaLimits;
}

function checkContent(text: Buffer, payloadStart: number, rules: ContentRules): void {
  const { contentType, modality, contentCheck } = rules;
  if (contentCheck === 'off') {
    return;
  }
  const beginning = decodeHead(text, payloadStart, sniffBytes);
  const type = decideType({
    ...rules,
    doing,
    declared: contentType,
    sniffed: sniffType(beginning),
  });
  if (modality !== 'image') {
    return;
  }
  // A JPEG may hold a preview and a colour profile before its frame header.
  const size =
    imageSize(type, beginning) ??
    (type === 'image/jpeg'
      ? imageSize(type, decodeHead(text, payloadStart, imageHeaderBytes))
      : undefined);
  checkImageSize(doing, size, contentCheck, rules.limits);
}
