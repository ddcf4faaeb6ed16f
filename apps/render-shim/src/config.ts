import { dirname, resolve } from 'node:path';

import {
  boolean,
  ConfigError,
  describeProblem,
  duration,
  integer,
  nearestName,
  readYamlFile,
  setting,
  text,
  textList,
} from '@llm-d/config';
import { type WorkerLimits } from '@llm-d/render';
import { parseListenAddress, type ListenAddress } from '@llm-d/service';
import { z } from 'zod';

import { type ModelConfig, modelEntry, toModelConfig } from './model-config.ts';

/** What a render shim starts with; durations in milliseconds. */
export interface ShimConfig {
  readonly listen: ListenAddress;
  readonly logLevel: 1 | 2 | 3 | 4 | 5;
  readonly maxBodyBytes: number;
  readonly readTimeoutMs: number;
  /** From the whole request to the start of its answer. */
  readonly requestTimeoutMs: number;
  /** The same for requests with images, video or audio. */
  readonly mediaTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  readonly drainDelayMs: number;
  /** Name in lower case of the header whose values tell tenants apart in the caches; undefined = all share them. */
  readonly tenantHeader: string | undefined;
  /** Refuses other content types than JSON with 415 instead of vLLM's 400. */
  readonly strictHttp: boolean;
  /** Asked for below `/v1`; empty = open. */
  readonly bearerTokens: readonly string[];
  readonly workers: WorkerLimits;
  /** At least one. */
  readonly models: readonly ModelConfig[];
}

const listenAddress = setting('an address such as :8080 or 127.0.0.1:8080', (value) =>
  typeof value === 'string' ? parseListenAddress(value) : undefined,
);

const workers = (what: string) =>
  setting(`auto, or a positive number of ${what}`, (value) =>
    value === 'auto' || (Number.isInteger(value) && Number(value) > 0)
      ? (value as 'auto' | number)
      : undefined,
  ).prefault('auto');

const shimFile = z.strictObject({
  listen: listenAddress.prefault(':8080'),
  log_level: integer('a level from 1 (warnings) to 5 (everything)', 1, 5).prefault(2),
  read_timeout: duration.prefault('30s'),
  shutdown_timeout: duration.prefault('30s'),
  drain_delay: duration.prefault('0'),
  strict_http: boolean.prefault(false),
  auth: z.strictObject({ bearer_tokens: textList.prefault([]) }).prefault({}),
  limits: z
    .strictObject({
      max_body_bytes: integer('a positive number of bytes', 1).prefault(67_108_864),
      max_images: integer('a positive number of images', 1).prefault(32),
      max_image_pixels: integer('a positive number of pixels', 1).prefault(50_000_000),
      max_prompt_chars_per_token: integer('a positive number of characters', 1).prefault(16),
      max_queue: integer('a positive number', 1).prefault(256),
      mem_budget_mb: integer('a positive number of MiB', 1).prefault(1024),
      request_timeout: duration.prefault('30s'),
      mm_request_timeout: duration.prefault('60s'),
    })
    .prefault({}),
  cache: z
    .strictObject({
      token_bytes: integer('a number of bytes, 0 for no cache', 0).prefault(67_108_864),
      tensor_bytes: integer('a number of bytes, 0 for no cache', 0).prefault(0),
      tenant_header: text.optional(),
    })
    .prefault({}),
  workers: z.strictObject({ text: workers('texts'), image: workers('threads') }).prefault({}),
  models: z.array(modelEntry).prefault([]),
});

/** Flags and their variables; the list of names ends in commas in a variable. */
export const sources: Readonly<Record<string, string>> = {
  config: 'SHIM_CONFIG',
  listen: 'SHIM_LISTEN',
  'log-level': 'SHIM_LOG_LEVEL',
  profile: 'SHIM_PROFILE',
  'served-model-name': 'SHIM_SERVED_MODEL_NAME',
};

/** Tokens are no flag: the list of processes would show them. */
const TOKENS_VARIABLE = 'SHIM_BEARER_TOKENS';

/**
 * Reads the configuration: flags win over `SHIM_*` variables, those over the file. Paths in the file count from the
 * file, others from the working directory. Throws a ConfigError that names every problem.
 */
export function loadShimConfig(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ShimConfig {
  const given = readFlags(argv);
  for (const [flag, variable] of Object.entries(sources)) {
    const value = environment[variable];
    if (value !== undefined && value !== '' && !given.has(flag)) given.set(flag, value.split(','));
  }
  const file = given.get('config')?.at(-1);
  const listen = given.get('listen')?.at(-1);
  const logLevel = given.get('log-level')?.at(-1);
  const values = {
    ...(file !== undefined && readYamlFile(file)),
    ...(listen !== undefined && { listen }),
    ...(logLevel !== undefined && {
      log_level: /^\d+$/.test(logLevel) ? Number(logLevel) : logLevel,
    }),
  };
  const result = shimFile.safeParse(values);
  if (!result.success) throw new ConfigError(result.error.issues.flatMap(describeIssue(values)));
  const { data } = result;
  return {
    listen: data.listen,
    logLevel: data.log_level as ShimConfig['logLevel'],
    maxBodyBytes: data.limits.max_body_bytes,
    readTimeoutMs: data.read_timeout,
    requestTimeoutMs: data.limits.request_timeout,
    mediaTimeoutMs: data.limits.mm_request_timeout,
    shutdownTimeoutMs: data.shutdown_timeout,
    drainDelayMs: data.drain_delay,
    bearerTokens: environment[TOKENS_VARIABLE]?.split(',') ?? data.auth.bearer_tokens,
    strictHttp: data.strict_http,
    tenantHeader: data.cache.tenant_header?.toLowerCase(),
    workers: {
      memoryBytes: data.limits.mem_budget_mb * 2 ** 20,
      queue: data.limits.max_queue,
      cache: { tokenBytes: data.cache.token_bytes, tensorBytes: data.cache.tensor_bytes },
      ...(data.workers.text !== 'auto' && { text: data.workers.text }),
      ...(data.workers.image !== 'auto' && { image: data.workers.image }),
    },
    models: modelsOf(data, given, file === undefined ? '.' : dirname(file)),
  };
}

/** The entries of the file, or the shipped profile; flags for one model need that there is no more than one. */
function modelsOf(
  { models, limits }: z.infer<typeof shimFile>,
  given: ReadonlyMap<string, string[]>,
  base: string,
): ModelConfig[] {
  const profile = given.get('profile')?.at(-1);
  const names = given.get('served-model-name');
  const flag = profile !== undefined ? 'profile' : names !== undefined ? 'served-model-name' : '';
  if (flag !== '' && (models.length > 1 || (models[0]?.mode ?? 'embedded') !== 'embedded')) {
    throw new ConfigError([`--${flag}: works only with a single embedded model`]);
  }
  const bounds = {
    maxImages: limits.max_images,
    maxImagePixels: limits.max_image_pixels,
    maxCharactersPerToken: limits.max_prompt_chars_per_token,
  };
  const entries = models.length > 0 ? models : [modelEntry.parse({})];
  return entries.map((entry) => {
    const config = toModelConfig(entry, base, bounds);
    if (config.mode !== 'embedded') return config;
    return {
      ...config,
      profile: {
        ...config.profile,
        ...(profile !== undefined && { directory: resolve(profile) }),
        ...(names !== undefined && { servedModelNames: names }),
      },
    };
  });
}

function readFlags(argv: readonly string[]): Map<string, string[]> {
  const given = new Map<string, string[]>();
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name = '', inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (!(name in sources)) throw new ConfigError([describeUnknownFlag(word, name)]);
    const value = inline ?? rest.shift();
    if (value === undefined || value === '') {
      throw new ConfigError([`--${name}: expected a value, got nothing`]);
    }
    given.set(name, [...(given.get(name) ?? []), value]);
  }
  return given;
}

function describeUnknownFlag(word: string, name: string): string {
  if (name === '') return describeProblem('command line', 'flags such as --config', word);
  const nearest = nearestName(name, Object.keys(sources));
  return `--${name}: unknown flag${nearest ? `, did you mean --${nearest}?` : ''}`;
}

function describeIssue(values: unknown): (issue: z.core.$ZodIssue) => string[] {
  return (issue) => {
    const path = issue.path.map(String).join('.');
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${path === '' ? key : `${path}.${key}`}: unknown key`);
    }
    const value = issue.path.reduce<unknown>(
      (parent, key) =>
        typeof parent === 'object' && parent !== null
          ? (parent as Record<PropertyKey, unknown>)[key]
          : undefined,
      values,
    );
    return [describeProblem(path, issue.message, value)];
  };
}
