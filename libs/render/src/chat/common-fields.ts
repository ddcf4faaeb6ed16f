import { type RenderedPrompt } from '../answer/rendered-prompt.ts';
import { badRequest, invalidField, notImplemented, unknownModel } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RequestFields } from './request-fields.ts';

const MAX_CACHE_SALT_CHARACTERS = 128;
const CACHE_SALT = /^[^@/\\\0]*$/;

/** What an answer repeats of its request. */
export type EchoedFields = Pick<
  RenderedPrompt,
  | 'model'
  | 'stream'
  | 'streamOptions'
  | 'cacheSalt'
  | 'priority'
  | 'kvTransferParams'
  | 'ecTransferParams'
  | 'requestId'
  | 'wantsTensors'
>;

/** What both routes read in the same way. */
export interface CommonFields {
  readonly echoed: EchoedFields;
  readonly wantsOffsets: boolean;
  readonly truncation: Truncation | undefined;
}

/** Tokens to keep and the side they are kept on. */
export interface Truncation {
  readonly tokens: number;
  readonly keeps: 'first' | 'last';
}

/** Limits and names the common fields are checked against. */
export interface ServingLimits {
  readonly modelIds: readonly string[];
  readonly maxModelLen: number;
}

/** Reads and checks the fields that chat and completions share. */
export function readCommonFields(fields: RequestFields, limits: ServingLimits): CommonFields {
  const stream = fields.boolean('stream') ?? false;
  const streamOptions = readStreamOptions(fields, stream);
  const cacheSalt = readCacheSalt(fields);
  if (fields.boolean('use_beam_search') === true) {
    throw badRequest('Beam search is not supported by the render endpoint');
  }
  const model = fields.text('model') ?? null;
  if (model !== null && model !== '' && !limits.modelIds.includes(model)) {
    throw unknownModel(model, limits.modelIds);
  }
  const kvTransferParams = fields.object('kv_transfer_params') ?? null;
  if (kvTransferParams?.has('prompt_token_ids') === true) {
    throw notImplemented('kv_transfer_params.prompt_token_ids', 'kv_transfer_params');
  }
  return {
    echoed: {
      model,
      stream,
      streamOptions,
      cacheSalt,
      priority: fields.integer('priority') ?? 0n,
      kvTransferParams,
      ecTransferParams: fields.object('ec_transfer_params') ?? null,
      requestId: fields.text('request_id'),
      wantsTensors: readPayload(fields) === 'tensors',
    },
    wantsOffsets: fields.boolean('return_token_offsets') ?? false,
    truncation: readTruncation(fields, limits.maxModelLen),
  };
}

function readStreamOptions(fields: RequestFields, stream: boolean): JsonValue {
  const options = fields.object('stream_options');
  if (options === undefined) return null;
  if (!stream) {
    throw badRequest(
      'Stream options can only be defined when `stream=True`. (parameter=stream_options)',
      'stream_options',
    );
  }
  const echoed: JsonObject = new Map<string, JsonValue>([
    ['include_usage', options.get('include_usage') ?? true],
    ['continuous_usage_stats', options.get('continuous_usage_stats') ?? false],
  ]);
  return echoed;
}

function readCacheSalt(fields: RequestFields): string | null {
  const salt = fields.get('cache_salt');
  if (salt === undefined) return null;
  if (typeof salt !== 'string' || salt === '') {
    throw badRequest(
      "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
      'cache_salt',
    );
  }
  if ([...salt].length > MAX_CACHE_SALT_CHARACTERS || !CACHE_SALT.test(salt)) {
    throw badRequest(
      `Parameter 'cache_salt' must be at most ${MAX_CACHE_SALT_CHARACTERS} characters and must not contain '@', '/', '\\\\', or NUL. (parameter=cache_salt)`,
      'cache_salt',
    );
  }
  return salt;
}

function readPayload(fields: RequestFields): string {
  const payload = fields.text('mm_payload');
  if (payload === undefined) {
    return fields.boolean('return_mm_kwargs') === false ? 'none' : 'tensors';
  }
  if (payload !== 'tensors' && payload !== 'none') {
    throw invalidField('body.mm_payload', "Input should be 'tensors' or 'none'");
  }
  return payload;
}

function readTruncation(fields: RequestFields, maxModelLen: number): Truncation | undefined {
  const wanted = fields.integer('truncate_prompt_tokens');
  if (wanted === undefined) return undefined;
  if (wanted < -1n) {
    throw invalidField(
      'body.truncate_prompt_tokens',
      'Input should be greater than or equal to -1',
    );
  }
  if (wanted > BigInt(maxModelLen)) {
    throw badRequest(
      `truncate_prompt_tokens=${wanted.toString()} cannot be greater than max_model_len = ${maxModelLen}. Please request a smaller truncation size. (parameter=truncate_prompt_tokens, value=${wanted.toString()})`,
      'truncate_prompt_tokens',
    );
  }
  const side = fields.text('truncation_side') ?? 'left';
  if (side !== 'left' && side !== 'right') {
    throw invalidField('body.truncation_side', "Input should be 'left' or 'right'");
  }
  return {
    tokens: wanted === -1n ? maxModelLen : Number(wanted),
    keeps: side === 'left' ? 'last' : 'first',
  };
}

/** The requested output length under its names; throws a 400 beyond the context. */
export function readRequestedTokens(
  fields: RequestFields,
  names: readonly string[],
  maxModelLen: number,
): bigint | undefined {
  const requested = names.map((name) => fields.integer(name)).find((value) => value !== undefined);
  if (requested !== undefined && requested > BigInt(maxModelLen)) {
    throw badRequest(
      `max_tokens=${requested.toString()} cannot be greater than max_model_len=${maxModelLen}. Please request fewer output tokens. (parameter=max_tokens, value=${requested.toString()})`,
      'max_tokens',
    );
  }
  return requested;
}
