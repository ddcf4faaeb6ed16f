import { createHash } from 'node:crypto';

import { Blake3Hasher } from '@napi-rs/blake-hash';

import { notImplemented } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RgbColor } from '../pixels/rgb-image.ts';

/** Hash functions that vLLM's `--mm-hasher-algorithm` knows. */
export type HashAlgorithm = 'blake3' | 'sha256' | 'sha512';

/** How the parts of a hash are put together: `flat` up to vLLM 0.29, `nested` in 0.30, `framed` since 0.31. */
export type HashScheme = 'flat' | 'nested' | 'framed';

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
  /** Default `framed`. */
  readonly scheme?: HashScheme;
}

const MODALITY = 'image';
const PROCESSOR_KWARGS = 'mm_processor_kwargs';
/** First byte of every value. */
const TAG = { none: 0, sequence: 1, mapping: 2, leaf: 3 } as const;

/** Hash of an image as vLLM computes it, in lower-case hex. Throws a 501 for factors whose place in a scheme is not known. */
export function mmHash(input: MmHashInput): string {
  const sink = hashSink(input.algorithm ?? 'blake3');
  const scheme = input.scheme ?? 'framed';
  if (scheme === 'framed') writeFramedHash(sink, input);
  else writeFlatHash(sink, input, scheme);
  return sink.digest();
}

/** Every chunk is preceded by its length, every value by a tag. */
function writeFramedHash(sink: HashSink, input: MmHashInput): void {
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
    ...usedFactors(input).map(([name, factor]): [string, () => void] => [
      name,
      () => {
        writeValue(sink, factor);
      },
    ]),
  ];
  for (const [name, write] of sorted(entries)) {
    writeFramed(sink, Buffer.from(name));
    write();
  }
}

/** Names and values one after the other, nothing between them; names of inner values are dotted. */
function writeFlatHash(sink: HashSink, input: MmHashInput, scheme: 'flat' | 'nested'): void {
  const { content, convertedOn, modelId } = input;
  const factors = usedFactors(input);
  if (scheme === 'flat' && factors.some(([name]) => name !== PROCESSOR_KWARGS)) {
    throw notImplemented('media_io_kwargs under the hash scheme flat', 'media_io_kwargs');
  }
  const [flat] = factors;
  const inner: [string, JsonValue][] =
    scheme === 'nested' ? factors : flat === undefined ? [] : [...flat[1]];
  const entries: [string, () => void][] = [
    [
      MODALITY,
      () => {
        sink.write(Buffer.from(MODALITY));
        if (typeof content === 'string') {
          sink.write(Buffer.from(content));
          return;
        }
        if (convertedOn !== undefined) {
          writeDotted(sink, `${MODALITY}.io_config`, ioConfig(convertedOn));
          sink.write(Buffer.from(`${MODALITY}.data`));
        } else sink.write(Buffer.from(MODALITY));
        sink.write(content);
      },
    ],
    [
      'model_id',
      () => {
        writeDotted(sink, 'model_id', modelId);
      },
    ],
    ...inner.map(([name, value]): [string, () => void] => [
      name,
      () => {
        writeDotted(sink, name, value);
      },
    ]),
  ];
  for (const [, write] of sorted(entries)) write();
}

function writeDotted(sink: HashSink, key: string, value: JsonValue): void {
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) writeDotted(sink, `${key}.${at}`, item);
  } else if (value instanceof Map) {
    for (const [name, item] of value) writeDotted(sink, `${key}.${name}`, item);
  } else {
    sink.write(Buffer.from(key));
    if (value !== null) sink.write(leafBytes(value));
  }
}

function usedFactors({ factors = {} }: MmHashInput): [string, JsonObject][] {
  return Object.entries(factors).filter(([, factor]) => factor.size > 0);
}

function sorted<T>(entries: [string, T][]): [string, T][] {
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What decoding an image to RGB depended on. */
function ioConfig(background: RgbColor): JsonObject {
  return new Map<string, JsonValue>([
    ['image_mode', 'RGB'],
    ['rgba_background_color', background.map(BigInt)],
  ]);
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
  writeValue(sink, ioConfig(convertedOn));
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
