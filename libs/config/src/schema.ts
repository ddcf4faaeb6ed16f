import { z } from 'zod';
import { media, mediaCache } from './media-section.ts';
import { pipeline, readWire, wire } from './pipeline-section.ts';
import { bytesPerMegabyte, server } from './server-section.ts';
import { booleanOrText, duration, httpAddress, integerOrText } from './setting.ts';

const gateway = {
  address: httpAddress('an http address with a host, such as http://gateway').describe(
    'The Inference Gateway, `http://host:port`; `user:password@` before the host is sent with all legs ([below](#credentials)).',
  ),
  max_idle_conns_per_host: integerOrText('a number of connections, 0 or more', 0)
    .prefault(100)
    .describe(
      "Idle connections that are kept longer than a second; 0 means 2, as in upstream's library. Open ones have no cap.",
    ),
  idle_conn_timeout: duration.prefault('90s').describe('How long an idle connection is kept.'),
  timeout: duration.prefault('60s').describe("From a leg sent to its answer's headers."),
  stream_idle_timeout: duration
    .prefault('300s')
    .describe(
      'Longest silence of a worker inside an answer that goes to the client ([below](#ends-of-answers)). `0s`: no limit.',
    ),
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
