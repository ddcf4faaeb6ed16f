import { toBase64 } from '@llm-d/json-document';
import { type CacheUse } from './cache/cache-query.ts';
import { type ImageSize } from './image-size.ts';

/** What the origin said of the bytes that it sent; nothing of the URL but its host. */
export interface MediaOrigin {
  readonly host: string;
  /** HTTP status of its answer. */
  readonly status: number;
  readonly redirects: number;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** Where the time of a download went, in milliseconds. */
export interface MediaTiming {
  /** The wait for its turn in this process. */
  readonly queueMs: number;
  /** From its turn to the headers of the answer, redirects and earlier attempts included. */
  readonly firstByteMs: number;
  /** From its turn to the last byte. */
  readonly downloadMs: number;
}

/** What a transform made of an image. */
export interface MediaTransform {
  /** `unchanged` covers what needs no change and what would not have become smaller. */
  readonly result: 'shrunk' | 'reoriented' | 'transcoded' | 'unchanged' | 'failed' | 'cached';
  readonly durationMs: number;
  /** The bytes as the origin sent them. */
  readonly sourceBytes: number;
  readonly sourceSha256: string;
}

/** What is known of an item beside its bytes; each fact is absent where it makes no sense. */
export interface MediaFacts {
  readonly size?: ImageSize | undefined;
  /** The origin's `Content-Type` as a clean token; absent when it sent none that makes sense. */
  readonly declaredType?: string | undefined;
  readonly origin?: MediaOrigin | undefined;
  /** Absent for bytes that this call did not download. */
  readonly timing?: MediaTiming | undefined;
  /** Absent when no transform was asked for. */
  readonly transform?: MediaTransform | undefined;
  /** Absent without a cache. */
  readonly cache?: CacheUse | undefined;
}

/** One item, verified: its exact bytes and a clean type. */
export class MediaResult {
  /** Exactly what the origin sent, after content decoding. Shared by equal references; do not change. */
  readonly bytes: Buffer;
  /** A clean type token, never the origin's raw header. */
  readonly contentType: string;
  readonly byteLength: number;
  /** Stored pixels before any EXIF rotation; undefined for other media and unknown headers. */
  readonly width: number | undefined;
  readonly height: number | undefined;
  readonly facts: MediaFacts;
  #base64: Buffer | undefined;

  constructor(bytes: Buffer, contentType: string, facts: MediaFacts = {}) {
    this.bytes = bytes;
    this.contentType = contentType;
    this.byteLength = bytes.length;
    this.width = facts.size?.width;
    this.height = facts.size?.height;
    this.facts = facts;
  }

  /** The same item, of which more is known. */
  with(facts: MediaFacts): MediaResult {
    const result = new MediaResult(this.bytes, this.contentType, { ...this.facts, ...facts });
    result.#base64 = this.#base64;
    return result;
  }

  /** Standard base64 of the bytes in ASCII, made on first use; shared, do not change. */
  base64(): Buffer {
    return (this.#base64 ??= toBase64(this.bytes));
  }

  /** `data:<type>;base64,<payload>`, beside what `base64` keeps. */
  dataUri(): string {
    return `data:${this.contentType};base64,${this.base64().toString('latin1')}`;
  }
}
