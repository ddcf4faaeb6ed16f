import { describe, expect, it } from '@jest/globals';
import { MediaError, type MediaErrorCode, originStatusError } from '../media-error.ts';
import { failureAgain, rememberedFailure } from './negative.ts';

const seconds = (error: MediaError): number | undefined => {
  const until = rememberedFailure(error, 'limits', 0, () => 0.5)?.until;
  return until && until / 1000;
};

describe('how long a failure is remembered', () => {
  it.each([
    { status: 404, expected: 60 },
    { status: 410, expected: 60 },
    { status: 401, expected: 10 },
    { status: 403, expected: 10 },
    { status: 451, expected: 10 },
    { status: 400, expected: 5 },
    { status: 500, expected: 5 },
    { status: 429, expected: 5 },
    { status: 429, retryAfterMs: 30_000, expected: 30 },
    { status: 429, retryAfterMs: 0, expected: 1 },
    { status: 429, retryAfterMs: 600_000, expected: 60 },
    { status: 503, retryAfterMs: 30_000, expected: 5 },
  ])(
    'origin $status, Retry-After $retryAfterMs: $expected s',
    ({ status, retryAfterMs, expected }) => {
      expect(seconds(originStatusError(status, 'log', retryAfterMs))).toBe(expected);
    },
  );

  it.each<{ code: MediaErrorCode; expected: number | undefined }>([
    { code: 'media_dns_failed', expected: 5 },
    { code: 'media_connect_failed', expected: 5 },
    { code: 'media_tls_failed', expected: 5 },
    { code: 'media_protocol_error', expected: 5 },
    { code: 'media_truncated', expected: 5 },
    { code: 'media_redirect_invalid', expected: 60 },
    { code: 'media_too_many_redirects', expected: 60 },
    { code: 'media_content_invalid', expected: 60 },
    { code: 'media_timeout', expected: 5 },
    { code: 'media_too_large', expected: 60 },
    { code: 'media_type_not_allowed', expected: 60 },
    { code: 'media_dimensions_exceeded', expected: 60 },
    { code: 'media_total_too_large', expected: undefined },
    { code: 'media_address_blocked', expected: undefined },
    { code: 'media_redirect_blocked', expected: undefined },
    { code: 'media_overloaded', expected: undefined },
    { code: 'media_cancelled', expected: undefined },
    { code: 'media_internal', expected: undefined },
  ])('$code: $expected s', ({ code, expected }) => {
    expect(seconds(new MediaError(code, 'text'))).toBe(expected);
  });

  it('depends on the limits of the call only where they decided', () => {
    const limitsOf = (code: MediaErrorCode): string | undefined =>
      rememberedFailure(new MediaError(code, 'text'), 'limits', 0)?.limits;
    expect(limitsOf('media_too_large')).toBe('limits');
    expect(limitsOf('media_dns_failed')).toBeUndefined();
  });

  it('comes back as it was, without what only logs may show', () => {
    const error = originStatusError(404, 'http://origin.example/… answered 404');
    const stored = rememberedFailure(error, 'limits', 0);
    expect(JSON.stringify(stored)).not.toContain('origin.example');
    expect(stored && failureAgain(stored)).toMatchObject({
      code: 'media_origin_status',
      stepStatus: 400,
      originStatus: 404,
      retryable: false,
      message: error.message,
    });
  });
});
