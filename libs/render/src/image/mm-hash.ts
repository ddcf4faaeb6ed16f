import { createHash } from 'node:crypto';

import { Blake3Hasher } from '@napi-rs/blake-hash';

import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RgbColor } from '../pixels/rgb-image.ts';

/** Hash functions that vLLM's `--mm-hasher-algorithm` knows. */
export type HashAlgorithm = 'blake3' | 'sha256' | 'sha512';

/** What the hash of one media item covers. */
export interface MmHashInput {
  /** Name or path the worker's server was started with, not its served alias. */
  readonly modelId: string;
  /** The encoded file, or the caller's `uuid` that stands for it. */
  readonly content: Uint8Array | string;
  /** Background colour when decoding had to convert the image to RGB; left out for plain RGB images. */
  readonly convertedOn?: RgbColor;
  /** Request options that change decoding or processing, under their request names; empty ones do not count. */
  readonly factors?: Readonly<Record<string, JsonObject>>;
  readonly algorithm?: HashAlgorithm;
}

const MODALITY = 'image';
/** First byte of every value. */
const TAG = { none: 0, sequence: 1, mapping: 2, leaf: 3 } as const;

/**
 * Hash of an image as vLLM 0.31 and later compute it (scheme `framed`): every chunk is preceded by its length, every
 * value by a tag. Lower-case hex.
 */
export function mmHash(input: MmHashInput): string {
  const sink = hashSink(input.algorithm ?? 'blake3');
  const entries: [string, () => void][] = [
    [
      MODALITY,
      () => {
        writeContent(sink, input);
      },
    ],
    [
      'model_id',
      () => {
        writeLeaf(sink, Buffer.from(input.modelId));
      },
    ],
  ];
  for (const [name, factor] of Object.entries(input.factors ?? {})) {
    if (factor.size > 0)
      entries.push([
        name,
        () => {
          writeValue(sink, factor);
        },
      ]);
  }
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, write] of entries) {
    writeFramed(sink, Buffer.from(name));
    write();
  }
  return sink.digest();
}

interface HashSink {
  write(bytes: Uint8Array): void;
  digest(): string;
}

function hashSink(algorithm: HashAlgorithm): HashSink {
  if (algorithm === 'blake3') {
    const hasher = new Blake3Hasher();
    return {
      write: (bytes) => {
        hasher.update(bytes);
      },
      digest: () => hasher.digest('hex'),
    };
  }
  const hash = createHash(algorithm);
  return {
    write: (bytes) => {
      hash.update(bytes);
    },
    digest: () => hash.digest('hex'),
  };
}

function writeContent(sink: HashSink, { content, convertedOn }: MmHashInput): void {
  if (typeof content === 'string') {
    writeLeaf(sink, Buffer.from(content));
    return;
  }
  writeLeaf(sink, Buffer.from(MODALITY));
  if (convertedOn === undefined) {
    writeLeaf(sink, content);
    return;
  }
  writeTagAndCount(sink, TAG.mapping, 2);
  writeFramed(sink, Buffer.from('io_config'));
  writeValue(
    sink,
    new Map<string, JsonValue>([
      ['image_mode', 'RGB'],
      ['rgba_background_color', convertedOn.map(BigInt)],
    ]),
  );
  writeFramed(sink, Buffer.from('data'));
  writeLeaf(sink, content);
}

function writeValue(sink: HashSink, value: JsonValue): void {
  if (value === null) {
    sink.write(Buffer.of(TAG.none));
  } else if (Array.isArray(value)) {
    writeTagAndCount(sink, TAG.sequence, value.length);
    for (const item of value) writeValue(sink, item);
  } else if (value instanceof Map) {
    writeTagAndCount(sink, TAG.mapping, value.size);
    for (const [key, item] of value) {
      writeFramed(sink, Buffer.from(key));
      writeValue(sink, item);
    }
  } else {
    writeLeaf(sink, leafBytes(value));
  }
}

function leafBytes(value: string | number | bigint | boolean): Uint8Array {
  if (typeof value === 'string') return Buffer.from(value);
  if (typeof value === 'boolean') return Buffer.of(value ? 1 : 0);
  const bytes = Buffer.alloc(8);
  if (typeof value === 'bigint') bytes.writeBigInt64LE(BigInt.asIntN(64, value));
  else bytes.writeDoubleLE(value);
  return bytes;
}

function writeLeaf(sink: HashSink, bytes: Uint8Array): void {
  sink.write(Buffer.of(TAG.leaf));
  writeFramed(sink, bytes);
}

function writeTagAndCount(sink: HashSink, tag: number, count: number): void {
  sink.write(Buffer.of(tag));
  sink.write(sizeBytes(count));
}

function writeFramed(sink: HashSink, bytes: Uint8Array): void {
  sink.write(sizeBytes(bytes.length));
  sink.write(bytes);
}

function sizeBytes(size: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(size));
  return bytes;
}
