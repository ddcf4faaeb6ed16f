import { z } from 'zod';

/** Values of the pod label `llm-d.ai/role` (deploy.md 1.6) that a worker can play. */
export const roles = [
  'encode',
  'prefill',
  'decode',
  'encode-prefill',
  'prefill-decode',
  'both',
  'encode-prefill-decode',
] as const;

/** One pod role; `both` is the old spelling of `prefill-decode`. */
export type Role = (typeof roles)[number];

const whole = z.coerce.number().int().min(0);
const positive = z.coerce.number().int().min(1);
const port = z.coerce.number().int().min(0).max(65_535);
const amount = z.coerce.number().min(0);
const flag = z.union([z.boolean(), z.stringbool()]);
const names = z.union([
  z.array(z.string().min(1)),
  z.string().transform((text) => text.split(',')),
]);

/** Options that are fixed when the worker starts; the others can be patched at `/admin/config`. */
export const fixedOptions = z.strictObject({
  role: z.enum(roles).prefault('decode'),
  /** Address to listen on. */
  host: z.string().prefault('127.0.0.1'),
  port: port.prefault(0),
  podName: z.string().min(1).optional(),
  /** The address that transfer params name; the listening address when left out. */
  podIp: z.string().min(1).optional(),
  /** Served names, the first is the default; `alias=name` adds an alias. */
  models: names.prefault('sim/model'),
  /** Folder of a model profile of `@llm-d/render`; the shipped one when left out. */
  renderProfile: z.string().min(1).optional(),
  blockSize: positive.prefault(16),
  kvBlocks: positive.prefault(8192),
  kvConnector: z.enum(['nixl', 'shared-storage', 'sglang', 'none']).prefault('nixl'),
  ecConnector: z.enum(['nixl', 'shared-storage', 'none']).prefault('nixl'),
  sidePortKv: port.prefault(0),
  sidePortEc: port.prefault(0),
  /** Where a prefill pod with `sglang` waits for decode pods. */
  bootstrapPort: port.prefault(0),
  sharedDir: z.string().prefault('/shared'),
});

/** Options that can change while the worker runs. */
export const patchableOptions = z.strictObject({
  mode: z.enum(['report', 'echo', 'random', 'script', 'count']).prefault('report'),
  /** The text of mode `script`. */
  script: z.string().prefault('This is a scripted answer.'),
  /** How many tokens the modes `count` and `random` make when the request sets no limit. */
  countTokens: positive.prefault(32),
  seed: whole.prefault(0),
  maxModelLen: positive.prefault(32_768),
  maxNumSeqs: positive.prefault(64),
  maxWaiting: whole.prefault(1000),
  /** Ids from here on are refused as out of vocabulary. */
  vocabSize: positive.prefault(151_936),
  /** Width of one embedding row; decides `shape` and `size_bytes` of encode answers. */
  hiddenSize: positive.prefault(2048),
  kvStrict: flag.prefault(true),
  ecStrict: flag.prefault(true),
  kvLeaseMs: positive.prefault(30_000),
  kvLoadFailure: z.enum(['fail', 'recompute']).prefault('fail'),
  /** Limit of one pull from a side channel. */
  pullTimeoutMs: positive.prefault(5000),
  /** How long one pod waits for the other in a bootstrap room, as long as SGLang. */
  roomTimeoutMs: positive.prefault(300_000),
  ecTtlMs: positive.prefault(60_000),
  faultHeaders: flag.prefault(false),
  /** Faults of every request, same grammar as the header `X-Sim-Fault`. */
  fault: z.string().prefault(''),
  conditionalDecode: z.enum(['ignore', 'enforce']).prefault('ignore'),
  noncachedTokens: whole.prefault(256),
  promptTokens: whole.prefault(128),
  bodyLimitMb: positive.prefault(64),
  profile: z.enum(['zero', 'h100-8b', 'h100x8-70b']).prefault('zero'),
  ttftMs: amount.optional(),
  prefillOverheadMs: amount.optional(),
  prefillPerTokenUs: amount.optional(),
  itlMs: amount.optional(),
  kvTransferSetupMs: amount.optional(),
  kvTransferPerTokenUs: amount.optional(),
  encodeOverheadMs: amount.optional(),
  encodePerTokenUs: amount.optional(),
  jitterPct: amount.max(100).prefault(0),
  loadFactor: amount.min(1).prefault(1),
  timeScale: amount.prefault(1),
});

/** What may be patched at run time, after defaults. */
export type Tuning = z.output<typeof patchableOptions>;

/** All options of a worker, after defaults. */
export type WorkerConfig = z.output<typeof fixedOptions> & Tuning;

/** Options as a test or another tool hands them in; the README has the table. */
export type WorkerOptions = Partial<WorkerConfig>;

const allOptions = z.strictObject({ ...fixedOptions.shape, ...patchableOptions.shape });

/** Fills in the defaults. Throws ZodError on an unknown key or a bad value. */
export const workerConfig = (options: Record<string, unknown>): WorkerConfig =>
  allOptions.parse(options);

/** The run-time part of a configuration. */
export const tuningOf = (config: WorkerConfig): Tuning =>
  z.object(patchableOptions.shape).parse(config);

/** Applies a patch of `/admin/config`. Throws ZodError on an unknown, fixed or bad key. */
export function patched(current: Tuning, patch: Record<string, unknown>): Tuning {
  patchableOptions.partial().parse(patch);
  return patchableOptions.parse({ ...current, ...patch });
}

/** Names of all options, as `SIM_` variables spell them without the prefix in camel case. */
export const optionNames: readonly string[] = Object.keys(allOptions.shape);
