import { type Modality, type RequestContext } from './request-context.ts';

/** A media URL of a client. */
export interface MediaReference {
  readonly url: string;
  readonly modality: Modality;
  /** Position among all media of the request. */
  readonly index: number;
}

/** Limits for one request's downloads. */
export interface MediaLimits {
  readonly downloadTimeoutMs: number;
  readonly maxConcurrentDownloads: number;
  readonly maxDownloadBytes: number;
  /** Takes the place of `maxDownloadBytes` for the modalities that it names. */
  readonly maxModalityBytes?: Partial<Record<Modality, number>>;
  /** Types accepted in place of the built-in list, by modality; an empty list takes any. */
  readonly allowedTypes?: Partial<Record<Modality, readonly string[]>>;
  readonly maxTotalDownloadBytes: number;
  readonly allowPrivateNetworks: boolean;
  /** Hosts that may be asked; empty = any that the address guard allows. */
  readonly allowedDomains: readonly string[];
  /** The defaults of whoever downloads where these are absent. */
  readonly maxRedirects?: number;
  readonly maxRetries?: number;
  /** How the type is decided: by the origin's word, by the bytes, or by bytes that are known. */
  readonly contentCheck?: 'off' | 'sniff' | 'strict';
  /** With `strict`: decodes every downloaded image once. */
  readonly decodesStrictly?: boolean;
  readonly cacheMode?: 'default' | 'reload' | 'no-store';
  /** Image types that are accepted and converted to JPEG or WebP. */
  readonly transcodeImageTypes?: readonly string[];
  /** Makes downloaded images smaller; they stay as they came when absent. */
  readonly transform?: ImageTransform;
}

/** The model's own rule for the size of images, and how they are written. */
export interface ImageTransform {
  readonly mode: 'off' | 'fit';
  /** Sides are multiples of it. */
  readonly factor: number;
  readonly minPixels: number;
  /** Images of more pixels are shrunk. */
  readonly maxPixels: number;
  readonly output: 'auto' | 'jpeg' | 'webp_lossless' | 'png';
  /** Stands behind transparent pixels where the output has none. */
  readonly background: string;
  /** Also re-encodes small images that EXIF turns. */
  readonly bakesOrientation: boolean;
}

/** Bytes of a media item with the type that they really have. */
export interface MediaContent {
  readonly contentType: string;
  readonly byteLength: number;
  /** Standard base64 in ASCII. */
  base64(): Uint8Array;
}

/** What a media fetcher in another process tells of a failure. */
export interface ReportedMediaFault {
  /** Stable, for example `media_too_large`. */
  readonly code: string;
  /** For the client. */
  readonly detail: string;
  readonly retryable?: boolean | undefined;
  /** Position among the references that were given together. */
  readonly index?: number | undefined;
  readonly limit?: number | undefined;
  readonly actual?: number | undefined;
  readonly hop?: number | undefined;
  readonly causeCode?: string | undefined;
  readonly originStatus?: number | undefined;
}

/** How a reference ended that another process downloaded. */
export interface RemoteMediaItem {
  readonly modality: Modality;
  /** Time of the call that it was part of. */
  readonly durationMs: number;
  /** What came, or the failure. */
  readonly end:
    | { readonly contentType: string; readonly byteLength: number }
    | { readonly code: string; readonly causeCode?: string | undefined };
}

/** Turns references into bytes, safely. `@llm-d/media` has the real one. */
export interface MediaSource {
  /** Throws a plain Error when a limit makes no sense, for example a malformed entry of `allowedDomains`. */
  checkLimits(limits: MediaLimits): void;
  /**
   * In order of the references; the first failure ends the others. `inlineBytes` are those of the request's `data:` URIs,
   * which count towards its total; without any reference it only judges them.
   */
  fetchMany(
    references: readonly MediaReference[],
    limits: MediaLimits,
    ctx: Pick<RequestContext, 'signal' | 'log'>,
    inlineBytes: number,
  ): Promise<readonly MediaContent[]>;
  /** Judges URLs by their texts, the first first, without network; throws a media fault with its index. */
  checkUrls(references: readonly MediaReference[], limits: MediaLimits): void;
  /** Checks an inline `data:` URI, given as the bytes of its text, and returns how many bytes it holds; throws a media fault. */
  checkDataUri(uri: Uint8Array, modality: Modality, limits: MediaLimits): number;
  /** The URI with canonical base64; undefined when it cannot become that. */
  repairDataUri(uri: Uint8Array): Uint8Array | undefined;
  /** The media fault that `fetchMany` would have thrown for a failure in another process. */
  readonly faultOf: (reported: ReportedMediaFault) => Error;
  /** Counts what another process downloaded. */
  readonly countRemote: (item: RemoteMediaItem) => void;
}
