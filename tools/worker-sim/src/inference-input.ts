import { ApiError, badField } from './api-error.ts';
import { type Bootstrap, bootstrapOf } from './bootstrap.ts';
import { canonicalText, isObject, type JsonObject, parseExact } from './exact-json.ts';

/** The inference APIs of a worker. */
export type Api = 'chat' | 'completions' | 'generate' | 'responses';

/** Path of each API. */
export const apiPaths: Readonly<Record<string, Api>> = {
  '/v1/chat/completions': 'chat',
  '/v1/completions': 'completions',
  '/inference/v1/generate': 'generate',
  '/v1/responses': 'responses',
};

/** A validated request body. */
export interface InferenceInput {
  api: Api;
  body: JsonObject;
  model: string;
  requestId: string | undefined;
  isStreaming: boolean;
  includeUsage: boolean;
  /** Sequences per prompt. */
  n: number;
  /** Undefined: up to the context length. */
  maxTokens: number | undefined;
  minTokens: number;
  ignoreEos: boolean;
  stop: string[];
  /** Generate only: text beside the token ids. */
  wantsText: boolean;
  /** Chat with a tool_choice that leaves no choice: the name of that tool. */
  forcedTool: string | undefined;
  wantsLogprobs: boolean;
  cacheSalt: string;
  kvTransferParams: JsonObject | undefined;
  ecTransferParams: JsonObject | undefined;
  /** Where prefill and decode meet under `sglang`. */
  bootstrap: Bootstrap | undefined;
}

/** vLLM's default for `/v1/completions` without `max_tokens`. */
const defaultCompletionTokens = 16;

/**
 * Validates a body as vLLM 0.32 does (engine-verified.md 3): refusals carry its texts.
 * Throws ApiError 400 or 404.
 */
export function parseInput(api: Api, body: JsonObject, models: ModelNames): InferenceInput {
  const sampling = api === 'generate' ? samplingParams(body) : body;
  const isStreaming = boolean(body, 'stream');
  // The Responses API has none of these three; vLLM ignores unknown fields.
  const isResponse = api === 'responses';
  const streamOptions = isResponse ? undefined : (body['stream_options'] ?? undefined);
  if (streamOptions !== undefined && !isStreaming) {
    throw badField(
      'stream_options',
      'Stream options can only be defined when `stream=True`. (parameter=stream_options)',
    );
  }
  const model = models.resolve(body['model']);
  const stop = sampling['stop'] ?? [];
  const maxTokens = maxTokensOf(api, sampling);
  const minTokens = isResponse ? 0 : (integer(sampling, 'min_tokens') ?? 0);
  if (maxTokens !== undefined && minTokens > maxTokens) {
    throw new ApiError(
      400,
      `min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`,
    );
  }
  checkTemperature(sampling);
  return {
    api,
    body,
    model,
    requestId: typeof body['request_id'] === 'string' ? body['request_id'] : undefined,
    isStreaming,
    includeUsage: isObject(streamOptions) && streamOptions['include_usage'] === true,
    n: isResponse ? 1 : sequences(sampling),
    maxTokens,
    minTokens,
    ignoreEos: boolean(sampling, 'ignore_eos'),
    stop: (Array.isArray(stop) ? stop : [stop]).filter((text) => typeof text === 'string'),
    wantsText: body['output_mode'] === 'text',
    forcedTool: api === 'chat' ? forcedTool(body) : undefined,
    wantsLogprobs:
      (api === 'chat' || api === 'completions') &&
      ![undefined, null, false].includes(body['logprobs'] as null),
    cacheSalt: typeof body['cache_salt'] === 'string' ? body['cache_salt'] : '',
    kvTransferParams: transferParams(api, body, 'kv_transfer_params'),
    ecTransferParams: transferParams(api, body, 'ec_transfer_params'),
    bootstrap: bootstrapOf(body),
  };
}

/** Parses a body; the digits of transfer params are kept. Throws ApiError 400. */
export function parseBody(bytes: Uint8Array): JsonObject {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  let body: unknown;
  try {
    // Only transfer params need every digit; the exact parse costs time on long token arrays.
    body = text.includes('_transfer_params"') ? parseExact(text) : JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, `Invalid JSON: ${error instanceof Error ? error.message : 'unknown'}`);
  }
  if (!isObject(body)) throw new ApiError(400, 'Request body must be a JSON object');
  return body;
}

function samplingParams(body: JsonObject): JsonObject {
  const sampling = body['sampling_params'];
  if (sampling === undefined) throw badField('body.sampling_params', 'Field required');
  if (!isObject(sampling)) {
    throw badField('body.sampling_params', 'Input should be a valid dictionary');
  }
  return sampling;
}

function maxTokensOf(api: Api, sampling: JsonObject): number | undefined {
  const asked =
    api === 'responses'
      ? integer(sampling, 'max_output_tokens')
      : ((api === 'chat' ? integer(sampling, 'max_completion_tokens') : undefined) ??
        integer(sampling, 'max_tokens'));
  if (asked !== undefined && asked < 1) {
    throw badField(
      'max_tokens',
      `max_tokens must be at least 1, got ${asked}. (parameter=max_tokens, value=${asked})`,
    );
  }
  return asked ?? (api === 'completions' ? defaultCompletionTokens : undefined);
}

function checkTemperature(sampling: JsonObject): void {
  const temperature = sampling['temperature'];
  if (typeof temperature === 'number' && temperature < 0) {
    const shown = Number.isInteger(temperature) ? temperature.toFixed(1) : String(temperature);
    throw badField(
      'temperature',
      `temperature must be non-negative, got ${shown}. (parameter=temperature, value=${shown})`,
    );
  }
}

function sequences(sampling: JsonObject): number {
  const n = integer(sampling, 'n') ?? 1;
  if (n < 1) throw badField('n', `n must be at least 1, got ${n}.`);
  if (n > maxSequences) throw badField('n', `n must be at most ${maxSequences}, got ${n}.`);
  return n;
}

const maxSequences = 128;

/** The tool that `tool_choice` names, or the first one under `required`. */
function forcedTool({ tools, tool_choice: choice }: JsonObject): string | undefined {
  if (isObject(choice)) return functionName(choice);
  const [first] = Array.isArray(tools) ? (tools as unknown[]) : [];
  return choice === 'required' ? functionName(first) : undefined;
}

function functionName(tool: unknown): string | undefined {
  const definition = isObject(tool) ? tool['function'] : undefined;
  const name = isObject(definition) ? definition['name'] : undefined;
  return typeof name === 'string' ? name : undefined;
}

function integer(from: JsonObject, name: string): number | undefined {
  const raw = from[name] ?? undefined;
  const value = raw === undefined || typeof raw === 'number' ? raw : Number(JSON.stringify(raw));
  if (value !== undefined && !Number.isInteger(value)) {
    throw badField(`body.${name}`, 'Input should be a valid integer');
  }
  return value;
}

function boolean(from: JsonObject, name: string): boolean {
  const value = from[name] ?? false;
  if (typeof value !== 'boolean') {
    throw badField(`body.${name}`, 'Input should be a valid boolean');
  }
  return value;
}

/** Top level on all APIs; generate also reads `sampling_params.extra_args`, and both must then agree. */
function transferParams(api: Api, body: JsonObject, name: string): JsonObject | undefined {
  const top = body[name] ?? undefined;
  const sampling = body['sampling_params'];
  const extra = isObject(sampling) ? sampling['extra_args'] : undefined;
  const nested = api === 'generate' && isObject(extra) ? (extra[name] ?? undefined) : undefined;
  if (top !== undefined && nested !== undefined && canonicalText(top) !== canonicalText(nested)) {
    throw badField(name, `${name} at the top level and in extra_args differ`);
  }
  const params = top ?? nested;
  if (params !== undefined && !isObject(params)) {
    throw badField(`body.${name}`, 'Input should be a valid dictionary');
  }
  return params;
}

/** The names a pod serves. */
export class ModelNames {
  /** Served names and aliases, in the order of the option. */
  readonly names: readonly string[];
  readonly #served: ReadonlyMap<string, string>;

  constructor(models: readonly string[]) {
    const pairs = models.map((entry): [string, string] => {
      const [alias = '', name = alias] = entry.split('=');
      return [alias, name];
    });
    this.#served = new Map([...pairs.map(([, name]): [string, string] => [name, name]), ...pairs]);
    this.names = [...this.#served.keys()];
  }

  /** The first served name. */
  get default(): string {
    return this.names[0] ?? '';
  }

  /** The name as asked for, when this pod serves it; the default when the body names none. */
  resolve(asked: unknown): string {
    if (asked === undefined || asked === null || asked === '') return this.default;
    if (typeof asked === 'string' && this.#served.has(asked)) return asked;
    const shown = typeof asked === 'string' ? asked : JSON.stringify(asked);
    throw new ApiError(
      404,
      `The model \`${shown}\` does not exist. Valid aliases: ${this.names.join(', ')}.`,
      { param: 'model' },
    );
  }
}
