import { getCiphers } from 'node:tls';
import { describe, expect, it } from '@jest/globals';
import { cipherSuites, tlsCipherSuite, tlsVersion, tlsVersionNames } from './tls-names.ts';

describe('tlsCipherSuite', () => {
  it.each(Object.entries(cipherSuites))('%s is a suite that OpenSSL has', (_name, suite) => {
    expect(getCiphers()).toContain(suite.toLowerCase());
  });

  it.each(['', 'TLS_NONE', 'toString', 'ECDHE-RSA-AES128-GCM-SHA256', 'TLS_RSA_WITH_RC4_128_SHA'])(
    'does not know %j',
    (name) => {
      expect(tlsCipherSuite(name)).toBeUndefined();
    },
  );
});

describe('tlsVersion', () => {
  it('knows four versions', () => {
    expect(tlsVersionNames.map(tlsVersion)).toEqual(['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']);
  });

  it.each(['', 'TLSv1.2', 'VersionTLS14', 'VersionSSL30', 'toString'])(
    'does not know %j',
    (name) => {
      expect(tlsVersion(name)).toBeUndefined();
    },
  );
});
