import { z } from 'zod';
import {
  booleanOrText,
  duration,
  headerNames,
  integerOrText,
  oneOf,
  setting,
  text,
  textList,
} from './setting.ts';
import { tlsCipherSuite, type TlsVersion, tlsVersion, tlsVersionNames } from './tls-names.ts';

/** The unit of sizes in the file. */
export const bytesPerMegabyte = 1024 * 1024;

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

/** Keys of `server`. */
export const server = {
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
