import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type Tensor } from '../render-cache.ts';

/** An image of a prompt: its hash, its placeholder run in `tokenIds`, and its size. */
export interface RenderedImage {
  /** As the workers compute it for the same file and model. */
  readonly hash: string;
  /** Index of the first placeholder in `tokenIds`. */
  readonly offset: number;
  /** Placeholder tokens. */
  readonly length: number;
  readonly gridThw: [number, number, number];
  /** Size of the source in pixels, EXIF orientation applied. */
  readonly width: number;
  readonly height: number;
  /** Size of the encoded file. */
  readonly byteLength: number;
}

/** One rendered prompt and what its answer object repeats of the request. */
export interface RenderedPrompt {
  /** Never empty; placeholders of images are expanded. */
  readonly tokenIds: Uint32Array;
  /** Output of the chat template or the prompt as given; undefined when the request gave token ids. */
  readonly promptText: string | undefined;
  readonly images: RenderedImage[];
  /** Tensor blob per image, base64 as ASCII bytes; undefined without images, and when nobody asked for tensors. */
  readonly kwargsData?: readonly Tensor[] | undefined;
  /** Code point range of each id in `promptText`; undefined unless the request asks for it, and with images. */
  readonly tokenOffsets: readonly (readonly [number, number])[] | undefined;
  readonly samplingParams: JsonObject;
  /** The request's `model` as sent. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly streamOptions: JsonValue;
  readonly cacheSalt: string | null;
  readonly priority: bigint;
  readonly kvTransferParams: JsonValue;
  readonly ecTransferParams: JsonValue;
  /** Null for completions. */
  readonly parseContext: JsonValue;
  /** The request's `request_id`, for the answer's own id. */
  readonly requestId: string | undefined;
  /** False when the request asks for hashes and placeholders only: the cheap mode. */
  readonly wantsTensors: boolean;
}
