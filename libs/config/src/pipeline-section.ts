import { z } from 'zod';
import {
  booleanOrText,
  duration,
  header,
  headerNames,
  integerOrText,
  oneOf,
  setting,
  text,
  textList,
} from './setting.ts';

/** Keys of `pipeline.wire`. */
export const wire = {
  era: oneOf('newest', 'seed')
    .prefault('newest')
    .describe('`newest` or `seed` (the first published design).'),
  phase_header: header
    .prefault('EPP-Profile')
    .describe('The header that names the phase. The latest gateways: `x-llm-d-epp-profile`.'),
  generate_transfer_params: oneOf('top-level', 'extra-args')
    .optional()
    .describe(
      'Where generate bodies carry transfer params: `top-level` (newest) or `extra-args` (seed).',
    ),
  chat_tokens: booleanOrText
    .optional()
    .describe('Whether chat legs carry the `tokens` object: `false` (newest) or `true` (seed).'),
  leg_request_id: oneOf('shared', 'unique')
    .prefault('shared')
    .describe('`shared`: all legs have the request id. `unique`: each has a suffix of its own.'),
  pin_header: header
    .prefault('x-prefill-pin-host-port')
    .describe(
      'The header that sends prefill of `prefill-decode` to the reserved pod. The latest routers: `x-llm-d-pin-host-port`.',
    ),
};

const step = z.strictObject(
  {
    type: setting('the name of a step', (value) =>
      typeof value === 'string' && value !== '' ? value : undefined,
    ),
    params: z.record(z.string(), z.unknown(), { error: 'a mapping of parameters' }).default({}),
  },
  { error: 'a step with a type and params' },
);

/** Keys of `pipeline`. */
export const pipeline = {
  kv_connector: text
    .prefault('')
    .describe(
      '`kv-nixl`, `kv-shared-storage`, `kv-sglang` or `kv-none`, as the workers run ([below](#kv-connectors)). Empty: `kv-shared-storage`.',
    ),
  ec_connector: text
    .prefault('')
    .describe('`ec-nixl` or `ec-shared-storage`. Empty: `ec-shared-storage`.'),
  use_openai_format: booleanOrText
    .prefault(true)
    .describe('`false`: encode and prefill legs of chat requests are sent as token ids.'),
  forward_response_headers: headerNames
    .prefault(['x-llm-d-disagg-revision'])
    .describe('Response headers of one phase that the later phases carry. An empty list: none.'),
  kv_lease: duration
    .prefault('30s')
    .describe("How long prefill's answer may wait for decode; after it prefill runs once more."),
  kv_multi_sequence: oneOf('local', 'transfer')
    .prefault('local')
    .describe(
      '`n > 1` under kv-nixl and kv-sglang ([below](#what-is-not-divided)). `local`: decode alone, or 400. `transfer`: as upstream does.',
    ),
  kv_release: oneOf('lease', 'decode')
    .prefault('lease')
    .describe(
      'KV blocks that nobody took. `lease`: they wait for the prefill pod, as upstream has it. `decode`: a one-token decode leg frees them.',
    ),
  trust_client_transfer_params: booleanOrText
    .prefault(false)
    .describe("`true`: a client's own transfer params reach the legs. Only for tests of engines."),
  passthrough: booleanOrText
    .prefault(true)
    .describe(
      'Sends requests for paths without a route to a decode pod ([below](#other-paths)); `false`: 404.',
    ),
  max_batch_size: integerOrText('a number of prompts, 1 or more', 1)
    .prefault(128)
    .describe('Prompts of one completions request; more are 400 ([below](#batches-of-prompts)).'),
  max_batch_parallel: integerOrText('a number of prompts, 1 or more', 1)
    .prefault(16)
    .describe('Prompts of one request that run at the same time.'),
  wire: z.strictObject(wire, { error: 'a mapping' }).prefault({}),
  plugins: textList
    .prefault([])
    .describe('Packages or files that define further kinds of steps ([below](#plugins)).'),
  steps: z
    .array(step, { error: 'a list of steps' })
    .default([])
    .describe('The steps in order, each `{type, params}`.'),
};

/** What an era sets where a switch is left out (coordinator.md 0). */
export const eraDefaults = {
  newest: { generate_transfer_params: 'top-level', chat_tokens: false },
  seed: { generate_transfer_params: 'extra-args', chat_tokens: true },
} as const;

/** `pipeline.wire` as the program reads it, with what its era sets. */
export function readWire(file: z.output<z.ZodObject<typeof wire>>) {
  const era = eraDefaults[file.era];
  return {
    era: file.era,
    phaseHeader: file.phase_header,
    generateTransferParams: file.generate_transfer_params ?? era.generate_transfer_params,
    hasChatTokens: file.chat_tokens ?? era.chat_tokens,
    legRequestId: file.leg_request_id,
    pinHeader: file.pin_header.toLowerCase(),
  };
}
