import { z } from 'zod';
import { media, mediaCache } from './media-section.ts';
import {
  booleanOrText,
  duration,
  header,
  headerNames,
  httpAddress,
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

const megabytes = integerOrText(
  'a size in MB',
  0,
  Math.floor(Number.MAX_SAFE_INTEGER / bytesPerMegabyte),
);

const server = {
  listen_addr: text
    .prefault(':8080')
    .describe('`:8080` (every interface), `127.0.0.1:0` (a free port, see the log), `[::1]:80`.'),
  metrics_port: integerOrText('a port', -1, 65_535)
    .prefault(9090)
    .describe(
      'Port of `GET /metrics`, on every interface ([metrics](apps/coordinator.md#metrics)). 0 or less: no such listener.',
    ),
  metrics_cert_dir: text
    .prefault('')
    .describe(
      'Directory with `tls.crt` and `tls.key`: the metrics listener speaks TLS, 1.2 at least. Bad files end the start. Empty: plain HTTP.',
    ),
  secure_serving: booleanOrText
    .prefault(false)
    .describe("Serve TLS ([below](#tls)). Upstream's default is true."),
  cert_path: text
    .prefault('')
    .describe(
      'Directory of `tls.crt` and `tls.key`. Empty: a self-signed certificate, for trials.',
    ),
  tls_min_version: tlsMinVersion
    .prefault('')
    .describe('`VersionTLS10` to `VersionTLS13`. Empty: TLS 1.2.'),
  tls_cipher_suites: tlsCipherSuites
    .prefault([])
    .describe(
      "Go's names, such as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`. Empty: OpenSSL's choice. TLS 1.3 has its own suites, which stay.",
    ),
  read_timeout: duration
    .prefault('30s')
    .describe('Time for a request to arrive whole (408 after it).'),
  idle_timeout: duration
    .prefault('120s')
    .describe(
      'Time that an idle connection stays open, at least `read_timeout` ([below](#idle-connections)).',
    ),
  write_timeout: duration
    .prefault('120s')
    .describe(
      'Time for a whole answer that is not streamed (504 after it). Streams have no such limit.',
    ),
  shutdown_timeout: duration
    .prefault('25s')
    .describe(
      'Time that requests in flight have after SIGTERM or SIGINT. What is left is cut ([below](#shutdown)).',
    ),
  stream_keepalive: duration
    .prefault('0s')
    .describe(
      'Interval of comments to a client of a stream whose answer has not come ([below](#keep-alive-comments)). `0s`: none.',
    ),
  drain_delay: duration
    .prefault('0s')
    .describe(
      'Time that new requests are still taken after a signal, while `/readyz` answers 503.',
    ),
  max_request_body_size: megabytes
    .prefault(64)
    .describe(
      'MB; a longer body is 413, and so is one that unpacks to more ([below](#compressed-requests)). 0 is the default.',
    ),
  max_concurrent_requests: integerOrText('a number of requests, 0 or more', 0)
    .prefault(0)
    .describe('Requests that are served at a time ([below](#admission)). 0: no limit.'),
  max_queued_requests: integerOrText('a number of requests, 0 or more', 0)
    .prefault(100)
    .describe('Requests that wait for one of those to end; the next is 429.'),
  queue_timeout: duration
    .prefault('5s')
    .describe('Longest wait (429 after it), never more than `read_timeout`.'),
  max_body_bytes_held: megabytes
    .prefault(0)
    .describe(
      'MB of all request bodies in memory together; a body beyond it is 503. 0: an eighth of the memory.',
    ),
  upstream_errors: oneOf('hide', 'relay')
    .prefault('hide')
    .describe(
      "`relay`: a worker's own message of a 400, 404, 413 or 422 reaches the client, at most 2 KB. `hide`: status and step only.",
    ),
  strip_request_headers: headerNames
    .prefault([])
    .describe(
      'Client headers that no leg carries, besides those that choose pods or play a phase.',
    ),
  keep_request_headers: headerNames
    .prefault([])
    .describe('Names of such headers that pass all the same.'),
  debug_addr: text
    .prefault('')
    .describe('Loopback address of the debug listener (below). Empty: none.'),
  receipt: booleanOrText
    .prefault(false)
    .describe(
      '`true`: answers say what the request took ([receipts](apps/coordinator.md#receipts)).',
    ),
  server_timing: booleanOrText
    .prefault(false)
    .describe(
      '`true`: every answer has a `server-timing` header. `false`: those that a client asks for it.',
    ),
};

const gateway = {
  address: httpAddress('an http address with a host, such as http://gateway').describe(
    'The Inference Gateway, `http://host:port`; `user:password@` before the host is sent with all legs ([below](#credentials)).',
  ),
  max_idle_conns_per_host: integerOrText('a number of connections, 0 or more', 0)
    .prefault(100)
    .describe(
      "Idle connections that are kept; 0 means 2, as in upstream's library. Open ones have no cap.",
    ),
  idle_conn_timeout: duration.prefault('90s').describe('How long an idle connection is kept.'),
  timeout: duration.prefault('60s').describe("From a leg sent to its answer's headers."),
  stream_idle_timeout: duration
    .prefault('300s')
    .describe(
      'Longest silence of a worker inside an answer that goes to the client ([below](#ends-of-answers)). `0s`: no limit.',
    ),
};

const wire = {
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

const pipeline = {
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

const root = {
  log_level: integerOrText('a level from 1 to 5', 1, 5)
    .prefault(2)
    .describe('1 warnings, 2 info, 3 verbose, 4 debug, 5 trace. JSON lines on standard output.'),
  tracing: booleanOrText
    .prefault(false)
    .describe('OpenTelemetry traces over OTLP, set up by `OTEL_*` ([tracing](tracing.md)).'),
  server: z.strictObject(server, { error: 'a mapping' }).prefault({}),
  gateway: z.strictObject(gateway, { error: 'a mapping' }).prefault({ address: undefined }),
  pipeline: z.strictObject(pipeline, { error: 'a mapping' }).prefault({}),
  media: z.strictObject(media, { error: 'a mapping' }).prefault({}),
};

/** Keys by section, as they stand in the file; the empty name is the top level. */
export const sections = {
  '': root,
  server,
  gateway,
  media,
  'media.cache': mediaCache,
  // Last, because the steps stand at its end.
  pipeline,
  'pipeline.wire': wire,
} as const;

/** What a key that is empty or zero stands for, as upstream has it. */
export const emptyMeans = {
  'server.max_request_body_size': 64,
  'pipeline.kv_connector': 'kv-shared-storage',
  'pipeline.ec_connector': 'ec-shared-storage',
} as const;

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
    maxRequestBodyBytes:
      (file.server.max_request_body_size || emptyMeans['server.max_request_body_size']) *
      bytesPerMegabyte,
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
    kvConnector: file.pipeline.kv_connector || emptyMeans['pipeline.kv_connector'],
    ecConnector: file.pipeline.ec_connector || emptyMeans['pipeline.ec_connector'],
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
    /** Packages, or files relative to the configuration file. */
    plugins: file.pipeline.plugins,
    steps: file.pipeline.steps,
  },
  /** As in the file, in its units: what runs the downloads turns it into its own terms. */
  media: file.media,
}));

/** What the coordinator runs with; the lists and numbers of `docs/configuration.md`. */
export type CoordinatorConfig = z.output<typeof coordinatorConfig>;

/** What an era sets where a switch is left out (coordinator.md 0). */
export const eraDefaults = {
  newest: { generate_transfer_params: 'top-level', chat_tokens: false },
  seed: { generate_transfer_params: 'extra-args', chat_tokens: true },
} as const;

function readWire(file: z.output<z.ZodObject<typeof wire>>) {
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
