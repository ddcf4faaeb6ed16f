import { describe, expect, it } from '@jest/globals';
import { MediaError } from './media-error.ts';
import { toMediaError } from './transport-error.ts';

const failure = (code: string, message = code): Error =>
  Object.assign(new Error(message), { code });

describe('a transport failure', () => {
  it.each([
    ['headers', 'ECONNREFUSED', 'media_connect_failed', true],
    ['headers', 'EHOSTUNREACH', 'media_connect_failed', true],
    ['headers', 'ENETUNREACH', 'media_connect_failed', true],
    ['headers', 'ECONNRESET', 'media_connect_failed', true],
    ['headers', 'EPIPE', 'media_connect_failed', true],
    ['headers', 'UND_ERR_CONNECT_TIMEOUT', 'media_timeout', true],
    ['headers', 'ETIMEDOUT', 'media_timeout', true],
    ['headers', 'UND_ERR_HEADERS_TIMEOUT', 'media_timeout', true],
    ['body', 'UND_ERR_BODY_TIMEOUT', 'media_timeout', false],
    ['headers', 'ERR_TLS_CERT_ALTNAME_INVALID', 'media_tls_failed', false],
    ['headers', 'CERT_HAS_EXPIRED', 'media_tls_failed', false],
    ['headers', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'media_tls_failed', false],
    ['headers', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'media_tls_failed', false],
    ['headers', 'ERR_SSL_WRONG_VERSION_NUMBER', 'media_tls_failed', false],
    ['headers', 'UND_ERR_HEADERS_OVERFLOW', 'media_protocol_error', false],
    ['body', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'media_protocol_error', false],
    ['body', 'UND_ERR_RES_EXCEEDED_MAX_SIZE', 'media_too_large', false],
    ['body', 'UND_ERR_SOCKET', 'media_truncated', true],
    ['body', 'ECONNRESET', 'media_truncated', true],
    ['headers', 'UND_ERR_MAX_ORIGINS_REACHED', 'media_overloaded', true],
  ] as const)('in the %s with %s is %s', (phase, code, expected, retryable) => {
    const error = toMediaError(failure(code), phase, 'http://h/…');
    expect(error).toMatchObject({ code: expected, retryable });
    expect(error.message).toMatch(/^downloading media: /);
    expect(error.logDetail).toContain(code);
  });

  it('is taken from among the addresses tried', () => {
    const all = new AggregateError([failure('EHOSTUNREACH'), failure('ECONNREFUSED')]);
    expect(toMediaError(all, 'headers', 'x').code).toBe('media_connect_failed');
  });

  it('gives way to the MediaError that caused it', () => {
    const cause = new MediaError('media_address_blocked', 'blocked');
    expect(toMediaError(new Error('wrapped', { cause }), 'headers', 'x')).toBe(cause);
    expect(toMediaError(cause, 'headers', 'x')).toBe(cause);
  });

  it('without a code is a mistake of ours, and its text stays in the log', () => {
    for (const thrown of [new TypeError('SECRET'), 'SECRET', undefined]) {
      const error = toMediaError(thrown, 'body', 'x');
      expect(error).toMatchObject({ code: 'media_internal', stepStatus: 502 });
      expect(error.message).not.toContain('SECRET');
    }
  });
});
