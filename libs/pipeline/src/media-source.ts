import { type Modality } from './request-context.ts';

/** A media URL of a client. */
export interface MediaReference {
  readonly url: string;
  readonly modality: Modality;
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
}

/** Bytes of a media item with the type that they really have. */
export interface MediaContent {
  readonly contentType: string;
  readonly byteLength: number;
  base64(): string;
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

/** Turns references into bytes, safely. `@llm-d/media` has the real one. */
export interface MediaSource {
  /** Throws a plain Error when a limit makes no sense, for example a malformed entry of `allowedDomains`. */
  checkLimits(limits: MediaLimits): void;
  /** In order of the references; the first failure ends the others. */
  fetchMany(
    references: readonly MediaReference[],
    limits: MediaLimits,
    signal: AbortSignal,
  ): Promise<readonly MediaContent[]>;
  /** Checks an inline `data:` URI, given as the bytes of its text; throws a media fault. */
  checkDataUri(uri: Uint8Array, modality: Modality, limits: MediaLimits): void;
  /** The media fault that `fetchMany` would have thrown for a failure in another process. */
  faultOf(reported: ReportedMediaFault): Error;
}
