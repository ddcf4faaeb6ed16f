import { DEFAULT_CIPHERS, type SecureContextOptions, type SecureVersion } from 'node:tls';

/** How a listener speaks TLS, apart from its certificate. */
export interface TlsProfile {
  /** TLS 1.2 when absent. */
  readonly minVersion?: SecureVersion | undefined;
  /** OpenSSL's names; none: the library's choice. */
  readonly cipherSuites?: readonly string[];
}

const tls13Suites: readonly string[] = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
];

/** Node's options for a profile. A list of suites for TLS 1.2 leaves TLS 1.3 as it is, like Go's. */
export function tlsOptions(profile: TlsProfile): SecureContextOptions {
  const { minVersion = 'TLSv1.2', cipherSuites = [] } = profile;
  const hasTls13 = cipherSuites.some((suite) => tls13Suites.includes(suite));
  const suites =
    cipherSuites.length === 0
      ? [DEFAULT_CIPHERS]
      : [...(hasTls13 ? [] : tls13Suites), ...cipherSuites];
  // Before TLS 1.2 signatures use SHA-1, which OpenSSL 3 allows at level 0 alone.
  if (minVersion === 'TLSv1' || minVersion === 'TLSv1.1') suites.push('@SECLEVEL=0');
  return { minVersion, ciphers: suites.join(':'), honorCipherOrder: true };
}
