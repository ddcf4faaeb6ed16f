import { badRequest, notImplemented } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RequestFields } from '../chat/request-fields.ts';
import { structuredOutputs } from './structured-outputs.ts';

/** Sampling values of a model's `generation_config.json` that replace the neutral ones. */
export interface SamplingDefaults {
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly top_k?: number | undefined;
  readonly min_p?: number | undefined;
  readonly repetition_penalty?: number | undefined;
  readonly max_new_tokens?: number | undefined;
}

/** What the sampling values depend on besides the request's own fields. */
export interface SamplingContext {
  readonly defaults: SamplingDefaults;
  /** The model's context minus the prompt. */
  readonly room: number;
  /** `max_tokens` as requested, undefined for the default of the route. */
  readonly requestedTokens: bigint | undefined;
  readonly logprobs: bigint | undefined;
  readonly isStreaming: boolean;
  /** Special tokens stay in the answer whatever the request says, because a tool parser reads them. */
  readonly keepsSpecialTokens?: boolean;
  /** What a tool parser demands of the answer's form. */
  readonly structuralTag?: string | undefined;
}

/** Below this upstream samples greedily. */
const GREEDY_TEMPERATURE = 1e-5;
const SMALLEST_TEMPERATURE = 0.01;
/** Upstream leaves out a field that has the engine's default. */
const ENGINE_MAX_TOKENS = 16n;
const MAX_LOGIT_BIAS = 100;

/** The object `sampling_params` of an answer, checked as vLLM checks it; keys in its order. */
export function samplingParams(fields: RequestFields, context: SamplingContext): JsonObject {
  const { defaults } = context;
  if (fields.has('vllm_xargs')) throw notImplemented('vllm_xargs', 'vllm_xargs');
  const n = fields.integer('n') ?? 1n;
  const stop = readStop(fields);
  const maxTokens = tokenLimit(context);
  const minTokens = fields.integer('min_tokens') ?? 0n;
  const values = {
    presencePenalty: fields.float('presence_penalty') ?? 0,
    frequencyPenalty: fields.float('frequency_penalty') ?? 0,
    repetitionPenalty: fields.float('repetition_penalty') ?? defaults.repetition_penalty ?? 1,
    temperature: fields.float('temperature') ?? defaults.temperature ?? 1,
    topP: fields.float('top_p') ?? defaults.top_p ?? 1,
    topK: fields.integer('top_k') ?? BigInt(defaults.top_k ?? 0),
    minP: fields.float('min_p') ?? defaults.min_p ?? 0,
  };
  if (n < 1n) throw badRequest(`n must be at least 1, got ${n.toString()}.`);
  between('presence_penalty', values.presencePenalty, -2, 2);
  between('frequency_penalty', values.frequencyPenalty, -2, 2);
  if (!(values.repetitionPenalty > 0)) {
    throw outOfRange('repetition_penalty', 'greater than zero', values.repetitionPenalty);
  }
  if (!Number.isFinite(values.temperature) || values.temperature < 0) {
    throw outOfRange('temperature', 'non-negative', values.temperature);
  }
  if (!(values.topP > 0 && values.topP <= 1)) throw outOfRange('top_p', 'in (0, 1]', values.topP);
  if (values.topK < -1n) throw outOfRange('top_k', '0 (disable), or at least 1', values.topK);
  between('min_p', values.minP, 0, 1);
  if (maxTokens < 1n) {
    throw badRequest(
      `max_tokens must be at least 1, got ${maxTokens.toString()}. (parameter=max_tokens, value=${maxTokens.toString()})`,
      'max_tokens',
    );
  }
  if (minTokens < 0n || minTokens > maxTokens) {
    throw outOfRange('min_tokens', 'between 0 and max_tokens', minTokens);
  }
  const isGreedy = values.temperature < GREEDY_TEMPERATURE;
  const topK = isGreedy ? 0n : values.topK;
  const includesStop = fields.boolean('include_stop_str_in_output') === true;
  const heldBack = includesStop ? 0 : Math.max(0, ...stop.map((text) => [...text].length - 1));
  return present([
    ['n', n === 1n ? undefined : n],
    ['presence_penalty', values.presencePenalty],
    ['frequency_penalty', values.frequencyPenalty],
    ['repetition_penalty', values.repetitionPenalty],
    [
      'temperature',
      isGreedy ? values.temperature : Math.max(values.temperature, SMALLEST_TEMPERATURE),
    ],
    ['top_p', isGreedy ? 1 : values.topP],
    ['top_k', topK === 0n ? undefined : topK],
    ['min_p', isGreedy ? 0 : values.minP],
    ['seed', seed(fields)],
    ['stop', stop],
    ['stop_token_ids', unique(fields.integers('stop_token_ids') ?? [])],
    ['ignore_eos', onlyIf(fields.boolean('ignore_eos'), true)],
    ['max_tokens', maxTokens === ENGINE_MAX_TOKENS ? undefined : maxTokens],
    ['min_tokens', minTokens === 0n ? undefined : minTokens],
    ['logprobs', context.logprobs],
    ['prompt_logprobs', fields.integer('prompt_logprobs')],
    [
      'skip_special_tokens',
      context.keepsSpecialTokens === true
        ? false
        : onlyIf(fields.boolean('skip_special_tokens'), false),
    ],
    [
      'spaces_between_special_tokens',
      onlyIf(fields.boolean('spaces_between_special_tokens'), false),
    ],
    ['include_stop_str_in_output', includesStop ? true : undefined],
    ['output_kind', context.isStreaming ? 1n : 2n],
    ['skip_clone', true],
    ['output_text_buffer_length', heldBack === 0 ? undefined : BigInt(heldBack)],
    ['structured_outputs', structuredOutputs(fields, context.structuralTag)],
    ['logit_bias', logitBias(fields)],
    ['allowed_token_ids', fields.integers('allowed_token_ids')],
    ['bad_words', fields.texts('bad_words') ?? []],
    ['skip_reading_prefix_cache', fields.has('prompt_logprobs')],
  ]);
}

function present(entries: readonly [string, JsonValue | undefined][]): JsonObject {
  return new Map(
    entries.flatMap(([key, value]): [string, JsonValue][] =>
      value === undefined ? [] : [[key, value]],
    ),
  );
}

function tokenLimit({ requestedTokens, defaults, room }: SamplingContext): bigint {
  const wanted = requestedTokens ?? defaults.max_new_tokens;
  const limit = BigInt(room);
  return wanted === undefined || BigInt(wanted) > limit ? limit : BigInt(wanted);
}

function readStop(fields: RequestFields): string[] {
  const stop = fields.get('stop');
  if (typeof stop === 'string') return [stop];
  return fields.texts('stop') ?? [];
}

function seed(fields: RequestFields): bigint | undefined {
  const value = fields.integer('seed');
  return value === -1n ? undefined : value;
}

function logitBias(fields: RequestFields): JsonObject | undefined {
  const bias = fields.object('logit_bias');
  if (bias === undefined) return undefined;
  return new Map(
    [...bias].map(([token, value]) => {
      if (!/^\d+$/.test(token) || (typeof value !== 'number' && typeof value !== 'bigint')) {
        throw badRequest(`logit_bias maps token ids to numbers, got ${token}`, 'logit_bias');
      }
      return [token, Math.min(Math.max(Number(value), -MAX_LOGIT_BIAS), MAX_LOGIT_BIAS)];
    }),
  );
}

function onlyIf(value: boolean | undefined, wanted: boolean): boolean | undefined {
  return value === wanted ? value : undefined;
}

function unique(ids: readonly bigint[]): bigint[] {
  return [...new Set(ids)];
}

function between(name: string, value: number, low: number, high: number): void {
  if (!(value >= low && value <= high)) throw outOfRange(name, `in [${low}, ${high}]`, value);
}

function outOfRange(name: string, wanted: string, value: number | bigint): Error {
  const got = value.toString();
  return badRequest(
    `${name} must be ${wanted}, got ${got}. (parameter=${name}, value=${got})`,
    name,
  );
}
