import { mmMetadata } from '../image/mm-metadata.ts';
import { jsonDumps } from '../python/json-dumps.ts';
import { fromJson } from '../python/value.ts';
import { type JsonValue } from '../json/json-value.ts';
import { type RenderedPrompt } from './rendered-prompt.ts';

/** How an answer object is written. */
export interface AnswerOptions {
  /** Full id with its prefix, such as `chatcmpl-...`. */
  readonly requestId: string;
  /** Writes a list of nulls in place of a null `kwargs_data`, for callers that compare list lengths. */
  readonly kwargsLists?: boolean;
}

/** Text, or bytes of text that are too many to copy. */
type Piece = string | Uint8Array;

/**
 * The JSON of a `RenderResult` in chunks, fields in vLLM's order. Token ids are joined, never turned into a JSON tree;
 * tensors are chunks of their own, never part of a larger text.
 */
export function writeAnswer(prompt: RenderedPrompt, options: AnswerOptions): Uint8Array[] {
  const members: [string, Piece[]][] = [
    ['request_id', [json(options.requestId)]],
    ['token_ids', [`[${prompt.tokenIds.join(',')}]`]],
    ['token_offsets', [writeOffsets(prompt)]],
    ['features', writeFeatures(prompt, options.kwargsLists === true)],
    ['content_parts', ['null']],
    ['sampling_params', [json(prompt.samplingParams)]],
    ['model', [json(prompt.model)]],
    ['reasoning_ended', ['null']],
    ['reasoning_parser_kwargs', ['null']],
    ['return_token_ids', ['null']],
    ['output_mode', ['"tokens"']],
    ['parse_context', [json(prompt.parseContext)]],
    ['stream', [json(prompt.stream)]],
    ['stream_options', [json(prompt.streamOptions)]],
    ['cache_salt', [json(prompt.cacheSalt)]],
    ['priority', [json(prompt.priority)]],
    ['kv_transfer_params', [json(prompt.kvTransferParams)]],
    ['ec_transfer_params', [json(prompt.ecTransferParams)]],
  ];
  return toChunks(writeObject(members));
}

function json(value: JsonValue): string {
  return jsonDumps(fromJson(value), { itemSeparator: ',', keySeparator: ':' });
}

function writeOffsets({ tokenOffsets }: RenderedPrompt): string {
  if (tokenOffsets === undefined) return 'null';
  return `[${tokenOffsets.map(([start, end]) => `[${start},${end}]`).join(',')}]`;
}

function writeFeatures(prompt: RenderedPrompt, kwargsLists: boolean): Piece[] {
  const { images, kwargsData, wantsTensors } = prompt;
  if (images.length === 0) return ['null'];
  const perImage = (items: readonly Piece[][]): Piece[] => [
    '{"image":[',
    ...items.flatMap((item, at) => (at === 0 ? item : [',', ...item])),
    ']}',
  ];
  const nulls = kwargsLists ? perImage(images.map(() => ['null'])) : ['null'];
  return writeObject([
    ['mm_hashes', perImage(images.map(({ hash }) => [json(hash)]))],
    [
      'mm_placeholders',
      perImage(images.map(({ offset, length }) => [`{"offset":${offset},"length":${length}}`])),
    ],
    ['kwargs_data', kwargsData ? perImage(kwargsData.map((blob) => ['"', blob, '"'])) : nulls],
    [
      'mm_metadata',
      wantsTensors ? perImage(images.map(({ gridThw }) => [`"${mmMetadata(gridThw)}"`])) : ['null'],
    ],
  ]);
}

function writeObject(members: readonly (readonly [string, Piece[]])[]): Piece[] {
  const pieces = members.flatMap(([name, value], at) => [
    `${at === 0 ? '' : ','}"${name}":`,
    ...value,
  ]);
  return ['{', ...pieces, '}'];
}

/** Joins neighbouring texts. */
function toChunks(pieces: readonly Piece[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let text = '';
  for (const piece of pieces) {
    if (typeof piece === 'string') {
      text += piece;
    } else {
      chunks.push(Buffer.from(text), piece);
      text = '';
    }
  }
  return [...chunks, Buffer.from(text)];
}
