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
import { tlsCipherSuite, type TlsVersion, tlsVersion, tlsVersionNames } from './tls-names.ts';

const bytesPerMegabyte = 1024 * 1024;

/** Go's name of a TLS version, or nothing. */
const tlsMinVersion = setting(
  `one of ${tlsVersionNames.join(', ')}`,
  (value): '' | TlsVersion | undefined =>
    value === '' ? '' : typeof value === 'string' ? tlsVersion(value) : undefined,
);

/** Go's names of cipher suites. */
const tlsCipherSuites = textList.transform((names, context) => {
  const known = names.map(tlsCipherSuite).filter((name) => name !== undefined);
  if (known.length === names.length) return known;
  context.addIssue({
    code: 'custom',
    message: "Go's names of cipher suites, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
  });
  return z.NEVER;
});

const httpAddress = setting('an http address with a host, such as http://gateway', (value) => {
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined;
  const { protocol, hostname } = new URL(value);
  return /^https?:$/.test(protocol) && hostname !== '' ? value : undefined;
});

const megabytes = integerOrText(
  'a size in MB',
  0,
  Math.floor(Number.MAX_SAFE_INTEGER / bytesPerMegabyte),
);

const server = {
  listen_addr: text.prefault(':8080'),
  metrics_port: integerOrText('a port', -1, 65_535).prefault(9090),
  metrics_cert_dir: text.prefault(''),
  secure_serving: booleanOrText.prefault(false),
  cert_path: text.prefault(''),
  tls_min_version: tlsMinVersion.prefault(''),
  tls_cipher_suites: tlsCipherSuites.prefault([]),
  read_timeout: duration.prefault('30s'),
  idle_timeout: duration.prefault('120s'),
  write_timeout: duration.prefault('120s'),
  shutdown_timeout: duration.prefault('25s'),
  stream_keepalive: duration.prefault('0s'),
  drain_delay: duration.prefault('0s'),
  max_request_body_size: megabytes.prefault(64),
  max_concurrent_requests: integerOrText('a number of requests, 0 or more', 0).prefault(0),
  max_queued_requests: integerOrText('a number of requests, 0 or more', 0).prefault(100),
  queue_timeout: duration.prefault('5s'),
  max_body_bytes_held: megabytes.prefault(0),
  upstream_errors: oneOf('hide', 'relay').prefault('hide'),
  strip_request_headers: headerNames.prefault([]),
  keep_request_headers: headerNames.prefault([]),
  debug_addr: text.prefault(''),
  receipt: booleanOrText.prefault(false),
  server_timing: booleanOrText.prefault(false),
};

const gateway = {
  address: httpAddress,
  max_idle_conns_per_host: integerOrText('a number of connections, 0 or more', 0).prefault(100),
  idle_conn_timeout: duration.prefault('90s'),
  timeout: duration.prefault('60s'),
  stream_idle_timeout: duration.prefault('300s'),
};

const wire = {
  era: oneOf('newest', 'seed').prefault('newest'),
  phase_header: header.prefault('EPP-Profile'),
  generate_transfer_params: oneOf('top-level', 'extra-args').optional(),
  chat_tokens: booleanOrText.optional(),
  leg_request_id: oneOf('shared', 'unique').prefault('shared'),
  pin_header: header.prefault('x-prefill-pin-host-port'),
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
  kv_release: oneOf('decode', 'lease').prefault('decode'),
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
    /** Empty: the metrics listener speaks plain HTTP. */
    metricsCertDirectory: file.server.metrics_cert_dir,
    isSecure: file.server.secure_serving,
    tls: {
      /** Directory of `tls.crt` and `tls.key`; empty: a self-signed certificate. */
      certificatePath: file.server.cert_path,
      minVersion: file.server.tls_min_version || undefined,
      /** OpenSSL's names; empty: the library's choice. */
      cipherSuites: file.server.tls_cipher_suites,
    },
    /** Zero in a timeout means no limit. */
    readTimeoutMs: file.server.read_timeout,
    idleTimeoutMs: file.server.idle_timeout,
    writeTimeoutMs: file.server.write_timeout,
    shutdownTimeoutMs: file.server.shutdown_timeout,
    /** Zero: no comments. */
    streamKeepAliveMs: file.server.stream_keepalive,
    drainDelayMs: file.server.drain_delay,
    maxRequestBodyBytes: (file.server.max_request_body_size || 64) * bytesPerMegabyte,
    admission: {
      /** 0 = no limit. */
      maxConcurrentRequests: file.server.max_concurrent_requests,
      maxQueuedRequests: file.server.max_queued_requests,
      queueTimeoutMs: file.server.queue_timeout,
      /** 0 = an eighth of the memory that the process may use. */
      maxBodyBytesHeld: file.server.max_body_bytes_held * bytesPerMegabyte,
    },
    upstreamErrors: file.server.upstream_errors,
    /** Lower-cased header names. */
    stripRequestHeaders: file.server.strip_request_headers,
    keepRequestHeaders: file.server.keep_request_headers,
    /** Empty: no debug listener. */
    debugAddress: file.server.debug_addr,
    hasReceipts: file.server.receipt,
    hasServerTiming: file.server.server_timing,
  },
  gateway: {
    address: file.gateway.address,
    /** 0 is the 2 of upstream's HTTP library. */
    maxIdleConnectionsPerHost: file.gateway.max_idle_conns_per_host || 2,
    idleConnectionTimeoutMs: file.gateway.idle_conn_timeout,
    timeoutMs: file.gateway.timeout,
    /** Zero: no limit. */
    streamIdleTimeoutMs: file.gateway.stream_idle_timeout,
  },
  pipeline: {
    /** Names only; the steps know which exist. */
    kvConnector: file.pipeline.kv_connector || 'kv-shared-storage',
    ecConnector: file.pipeline.ec_connector || 'ec-shared-storage',
    usesOpenAiFormat: file.pipeline.use_openai_format,
    forwardResponseHeaders: file.pipeline.forward_response_headers,
    kvLeaseMs: file.pipeline.kv_lease,
    kvMultiSequence: file.pipeline.kv_multi_sequence,
    kvRelease: file.pipeline.kv_release,
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
    pinHeader: file.pin_header.toLowerCase(),
  };
}
