import { mmMetadata } from '../image/mm-metadata.ts';
import { jsonDumps } from '../python/json-dumps.ts';
import { fromJson } from '../python/value.ts';
import { type JsonValue } from '../json/json-value.ts';
import { type RenderedPrompt } from './rendered-prompt.ts';

/** How an answer object is written. */
export interface AnswerOptions {
  /** Full id with its prefix, such as `chatcmpl-...`. */
  readonly requestId: string;
  /** Writes a list of nulls in place of the null `kwargs_data`, for callers that compare list lengths. */
  readonly kwargsLists?: boolean;
}

/** The JSON of a `RenderResult`, fields in vLLM's order. Token ids are joined, never turned into a JSON tree. */
export function writeAnswer(prompt: RenderedPrompt, options: AnswerOptions): string {
  const members: [string, string][] = [
    ['request_id', json(options.requestId)],
    ['token_ids', `[${prompt.tokenIds.join(',')}]`],
    ['token_offsets', writeOffsets(prompt)],
    ['features', writeFeatures(prompt, options.kwargsLists === true)],
    ['content_parts', 'null'],
    ['sampling_params', json(prompt.samplingParams)],
    ['model', json(prompt.model)],
    ['reasoning_ended', 'null'],
    ['reasoning_parser_kwargs', 'null'],
    ['return_token_ids', 'null'],
    ['output_mode', '"tokens"'],
    ['parse_context', json(prompt.parseContext)],
    ['stream', json(prompt.stream)],
    ['stream_options', json(prompt.streamOptions)],
    ['cache_salt', json(prompt.cacheSalt)],
    ['priority', json(prompt.priority)],
    ['kv_transfer_params', json(prompt.kvTransferParams)],
    ['ec_transfer_params', json(prompt.ecTransferParams)],
  ];
  return `{${members.map(([name, text]) => `"${name}":${text}`).join(',')}}`;
}

function json(value: JsonValue): string {
  return jsonDumps(fromJson(value), { itemSeparator: ',', keySeparator: ':' });
}

function writeOffsets({ tokenOffsets }: RenderedPrompt): string {
  if (tokenOffsets === undefined) return 'null';
  return `[${tokenOffsets.map(([start, end]) => `[${start},${end}]`).join(',')}]`;
}

function writeFeatures({ images, wantsMetadata }: RenderedPrompt, kwargsLists: boolean): string {
  if (images.length === 0) return 'null';
  const list = (items: readonly string[]): string => `{"image":[${items.join(',')}]}`;
  const hashes = list(images.map(({ hash }) => json(hash)));
  const placeholders = list(
    images.map(({ offset, length }) => `{"offset":${offset},"length":${length}}`),
  );
  const kwargs = kwargsLists ? list(images.map(() => 'null')) : 'null';
  const metadata = wantsMetadata
    ? list(images.map(({ gridThw }) => `"${mmMetadata(gridThw)}"`))
    : 'null';
  return `{"mm_hashes":${hashes},"mm_placeholders":${placeholders},"kwargs_data":${kwargs},"mm_metadata":${metadata}}`;
}
