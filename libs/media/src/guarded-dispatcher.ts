import { type LookupFunction } from 'node:net';
import { rootCertificates } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { type AddressGuard } from './address-guard.ts';
import { MediaError } from './media-error.ts';
import { type MediaLimits } from './options.ts';
import { type ResolveChecked } from './resolve-host.ts';
import { literalAddress } from './url-policy.ts';

/** Values of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`; they may hold credentials, so they are never logged. */
export interface ProxyConfig {
  readonly httpProxy?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly noProxy?: string | undefined;
  /** Lets the proxy resolve names that do not resolve here; it is then the only guard for them. */
  readonly trustRemoteDns?: boolean | undefined;
}

/** What a guarded dispatcher is made of. */
export interface GuardedDispatcherConfig {
  readonly guard: AddressGuard;
  readonly resolve: ResolveChecked;
  readonly limits: MediaLimits;
  readonly proxy: ProxyConfig | undefined;
  /** PEM certificates trusted beside those of Node. */
  readonly extraCa: string | undefined;
  /** Replaces undici's `buildConnector`, for tests that watch which addresses sockets are opened to. */
  readonly buildConnector?: typeof buildConnector | undefined;
}

/** A `lookup` for sockets that hands out checked addresses only, so there is no second lookup to race. */
export function pinnedLookup(resolve: ResolveChecked): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all === true || first === undefined) {
          callback(null, addresses);
        } else {
          callback(null, first.address, first.family);
        }
      },
      (error: unknown) => {
        callback(error instanceof Error ? error : new Error('lookup failed', { cause: error }), []);
      },
    );
  };
}

/**
 * Wraps a connector with the two checks that its lookup cannot make: IP literals, for which no lookup is
 * called, and the peer that the socket really reached.
 */
export function guardConnector(
  guard: AddressGuard,
  connect: buildConnector.connector,
): buildConnector.connector {
  const blocked = (detail: string): MediaError =>
    new MediaError('media_address_blocked', 'downloading media: the address is not public', {
      logDetail: detail,
    });
  return (options, callback) => {
    const literal = literalAddress(options.hostname);
    const why = literal === undefined ? undefined : guard(literal);
    if (why !== undefined) {
      callback(blocked(`${options.hostname} is blocked: ${why}`), null);
      return;
    }
    connect(options, (error, socket) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      const peer = socket.remoteAddress;
      // A socket that is closed already has no peer; undici reports the close itself.
      const peerProblem = peer === undefined ? undefined : guard(peer);
      if (peerProblem === undefined) {
        callback(null, socket);
        return;
      }
      socket.destroy();
      callback(
        blocked(`${options.hostname} reached ${peer}, which is blocked: ${peerProblem}`),
        null,
      );
    });
  };
}

/**
 * The dispatcher that every request goes through. The lookup has to be given when the connector is built;
 * undici ignores one given per request, and the guard would silently be gone. Whoever builds it closes it.
 */
export function createGuardedDispatcher(config: GuardedDispatcherConfig): Dispatcher {
  const { guard, limits, proxy, extraCa, buildConnector: build = buildConnector } = config;
  const connect = guardConnector(
    guard,
    build({
      allowH2: false,
      timeout: limits.connectTimeoutMs,
      lookup: pinnedLookup(config.resolve),
      minVersion: 'TLSv1.2',
      autoSelectFamily: true,
      ...(extraCa === undefined ? {} : { ca: [...rootCertificates, extraCa] }),
    }),
  );
  const options: Agent.Options = {
    connect,
    allowH2: false,
    connections: limits.maxConnectionsPerHost,
    maxOrigins: limits.maxOrigins,
    pipelining: 1,
    maxHeaderSize: limits.maxResponseHeaderBytes,
    // A second net: nothing larger could be held anyway.
    maxResponseSize: limits.globalMaxBufferedBytes,
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.idleTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    keepAliveMaxTimeout: limits.keepAliveMaxMs,
  };
  return proxy === undefined
    ? new Agent(options)
    : new EnvHttpProxyAgent({
        ...options,
        // Empty text instead of nothing keeps undici from reading the environment itself.
        httpProxy: proxy.httpProxy ?? '',
        httpsProxy: proxy.httpsProxy ?? '',
        noProxy: proxy.noProxy ?? '',
      });
}
