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

const bytesPerMegabyte = 1024 * 1024;

/** TLS comes later; a key that asks for it must not be ignored. */
const noTls = 'nothing, as TLS is not supported in this version';
const unset = setting(noTls, (value) => (value === '' ? '' : undefined));

const httpAddress = setting('an http address with a host, such as http://gateway', (value) => {
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined;
  const { protocol, hostname } = new URL(value);
  return /^https?:$/.test(protocol) && hostname !== '' ? value : undefined;
});

const server = {
  listen_addr: text.prefault(':8080'),
  metrics_port: integerOrText('a port', -1, 65_535).prefault(9090),
  metrics_cert_dir: unset.prefault(''),
  secure_serving: booleanOrText
    .refine((value) => !value, {
      error: 'false, as TLS is not supported in this version',
    })
    .prefault(false),
  cert_path: unset.prefault(''),
  tls_min_version: text.prefault(''),
  tls_cipher_suites: textList.prefault([]),
  read_timeout: duration.prefault('30s'),
  write_timeout: duration.prefault('120s'),
  shutdown_timeout: duration.prefault('25s'),
  drain_delay: duration.prefault('0s'),
  max_request_body_size: integerOrText(
    'a size in MB',
    0,
    Math.floor(Number.MAX_SAFE_INTEGER / bytesPerMegabyte),
  ).prefault(64),
  upstream_errors: oneOf('hide', 'relay').prefault('hide'),
  strip_request_headers: headerNames.prefault([]),
  keep_request_headers: headerNames.prefault([]),
  debug_addr: text.prefault(''),
};

const gateway = {
  address: httpAddress,
  max_idle_conns_per_host: integerOrText('a number of connections, 0 or more', 0).prefault(100),
  idle_conn_timeout: duration.prefault('90s'),
  timeout: duration.prefault('60s'),
};

const wire = {
  era: oneOf('newest', 'seed').prefault('newest'),
  phase_header: header.prefault('EPP-Profile'),
  generate_transfer_params: oneOf('top-level', 'extra-args').optional(),
  chat_tokens: booleanOrText.optional(),
  leg_request_id: oneOf('shared', 'unique').prefault('shared'),
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

const pipeline = {
  kv_connector: text.prefault(''),
  ec_connector: text.prefault(''),
  use_openai_format: booleanOrText.prefault(true),
  forward_response_headers: headerNames.prefault(['x-llm-d-disagg-revision']),
  kv_lease: duration.prefault('30s'),
  kv_multi_sequence: oneOf('local', 'transfer').prefault('local'),
  trust_client_transfer_params: booleanOrText.prefault(false),
  passthrough: booleanOrText.prefault(true),
  max_batch_size: integerOrText('a number of prompts, 1 or more', 1).prefault(128),
  max_batch_parallel: integerOrText('a number of prompts, 1 or more', 1).prefault(16),
  wire: z.strictObject(wire, { error: 'a mapping' }).prefault({}),
  steps: z.array(step, { error: 'a list of steps' }).default([]),
};

const root = {
  log_level: integerOrText('a level from 1 to 5', 1, 5).prefault(2),
  tracing: booleanOrText.prefault(false),
  server: z.strictObject(server, { error: 'a mapping' }).prefault({}),
  gateway: z.strictObject(gateway, { error: 'a mapping' }).prefault({ address: undefined }),
  pipeline: z.strictObject(pipeline, { error: 'a mapping' }).prefault({}),
};

/** Keys by section, as they stand in the file; the empty name is the top level. */
export const sections = { '': root, server, gateway, pipeline, 'pipeline.wire': wire } as const;

/** The whole file after defaults: what the program reads, renamed and with units. */
export const coordinatorConfig = z.strictObject(root).transform((file) => ({
  logLevel: file.log_level as 1 | 2 | 3 | 4 | 5,
  tracing: file.tracing,
  server: {
    listenAddress: file.server.listen_addr,
    /** Zero or less: no metrics listener. */
    metricsPort: file.server.metrics_port,
    /** Zero in a timeout means no limit. */
    readTimeoutMs: file.server.read_timeout,
    writeTimeoutMs: file.server.write_timeout,
    shutdownTimeoutMs: file.server.shutdown_timeout,
    drainDelayMs: file.server.drain_delay,
    maxRequestBodyBytes: (file.server.max_request_body_size || 64) * bytesPerMegabyte,
    upstreamErrors: file.server.upstream_errors,
    /** Lower-cased header names. */
    stripRequestHeaders: file.server.strip_request_headers,
    keepRequestHeaders: file.server.keep_request_headers,
    /** Empty: no debug listener. */
    debugAddress: file.server.debug_addr,
  },
  gateway: {
    address: file.gateway.address,
    maxIdleConnectionsPerHost: file.gateway.max_idle_conns_per_host,
    idleConnectionTimeoutMs: file.gateway.idle_conn_timeout,
    timeoutMs: file.gateway.timeout,
  },
  pipeline: {
    /** Names only; the steps know which exist. */
    kvConnector: file.pipeline.kv_connector || 'kv-shared-storage',
    ecConnector: file.pipeline.ec_connector || 'ec-shared-storage',
    usesOpenAiFormat: file.pipeline.use_openai_format,
    forwardResponseHeaders: file.pipeline.forward_response_headers,
    kvLeaseMs: file.pipeline.kv_lease,
    kvMultiSequence: file.pipeline.kv_multi_sequence,
    trustsClientTransferParams: file.pipeline.trust_client_transfer_params,
    hasPassthrough: file.pipeline.passthrough,
    /** Prompts of one completions request, and how many of them run at the same time. */
    maxBatchSize: file.pipeline.max_batch_size,
    maxBatchParallel: file.pipeline.max_batch_parallel,
    wire: readWire(file.pipeline.wire),
    steps: file.pipeline.steps,
  },
}));

/** What the coordinator runs with; the lists and numbers of `docs/configuration.md`. */
export type CoordinatorConfig = z.output<typeof coordinatorConfig>;

/** An era sets what the single switches leave open (coordinator.md 0). */
function readWire(file: z.output<z.ZodObject<typeof wire>>) {
  const isSeed = file.era === 'seed';
  return {
    phaseHeader: file.phase_header,
    generateTransferParams:
      file.generate_transfer_params ?? (isSeed ? ('extra-args' as const) : ('top-level' as const)),
    hasChatTokens: file.chat_tokens ?? isSeed,
    legRequestId: file.leg_request_id,
  };
}
