import { type LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { types } from 'node:util';
import { type AddressGuard } from './address-guard.ts';
import { MediaError } from './media-error.ts';

/** Resolves a name to all its addresses, as `dns.lookup` with `all: true` does; rejects with a system error. */
export type ResolveHost = (hostname: string) => Promise<readonly LookupAddress[]>;

/** The system's resolver: hosts file, search domains and DNS. */
export const systemResolve: ResolveHost = (hostname) =>
  lookup(hostname, { all: true, order: 'verbatim' });

/** Resolves a name and returns every address, each of them permitted. */
export type ResolveChecked = (hostname: string) => Promise<LookupAddress[]>;

/**
 * Wraps a resolver: one forbidden address refuses the name as a whole, since a mixed answer is an attack or a
 * mistake and never a reason to pick. Rejects with MediaError.
 */
export function checkedResolver(
  resolve: ResolveHost,
  guard: AddressGuard,
  timeoutMs: number,
): ResolveChecked {
  return async (hostname) => {
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(
        new MediaError(
          'media_timeout',
          'downloading media: the host name was not resolved in time',
          {
            limit: timeoutMs,
            logDetail: `${hostname} was not resolved within ${timeoutMs} ms`,
          },
        ),
      );
    }, timeoutMs);
    let addresses: readonly LookupAddress[];
    try {
      addresses = await Promise.race([resolve(hostname), silence]);
    } catch (error) {
      throw error instanceof MediaError ? error : dnsError(hostname, error);
    } finally {
      clearTimeout(timer);
    }
    if (addresses.length === 0) {
      throw dnsError(hostname, undefined);
    }
    for (const { address } of addresses) {
      const why = guard(address);
      if (why !== undefined) {
        throw new MediaError(
          'media_address_blocked',
          'downloading media: the address is not public',
          {
            logDetail: `${hostname} resolves to ${address}, which is blocked: ${why}`,
          },
        );
      }
    }
    return [...addresses];
  };
}

function dnsError(hostname: string, cause: unknown): MediaError {
  const code = types.isNativeError(cause) && 'code' in cause ? String(cause.code) : 'no address';
  return new MediaError('media_dns_failed', 'downloading media: the host name does not resolve', {
    cause,
    logDetail: `${hostname} does not resolve: ${code}`,
    retryable: code !== 'ENOTFOUND',
  });
}
