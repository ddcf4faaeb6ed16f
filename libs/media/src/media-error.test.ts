import { describe, expect, it } from '@jest/globals';
import { MediaError, mediaErrorCodes, originStatusError } from './media-error.ts';
import { redactUrl } from './redact.ts';

describe('a media error', () => {
  it('takes its statuses from the table', () => {
    expect(new MediaError('media_too_large', 'x')).toMatchObject({
      kind: 'client',
      httpStatus: 413,
      stepStatus: 400,
      retryable: false,
      safeMessage: 'x',
      message: 'x',
      logDetail: 'x',
    });
  });

  it('is never a 5xx of the step for a client or an origin', () => {
    for (const { kind, stepStatus } of Object.values(mediaErrorCodes)) {
      if (kind === 'client' && stepStatus !== mediaErrorCodes.media_not_cached.stepStatus) {
        expect(stepStatus).toBe(400);
      }
      if (kind === 'origin') {
        expect(stepStatus).toBe(424);
      }
    }
  });

  it.each([
    [404, 400, false, 'client'],
    [403, 400, false, 'client'],
    [401, 400, false, 'client'],
    [408, 424, true, 'origin'],
    [425, 424, true, 'origin'],
    [429, 424, true, 'origin'],
    [500, 424, true, 'origin'],
    [503, 424, true, 'origin'],
    [204, 424, false, 'origin'],
    [206, 424, false, 'origin'],
    [304, 424, false, 'origin'],
  ])('origin status %i is step status %i', (originStatus, stepStatus, retryable, kind) => {
    expect(originStatusError(originStatus, 'http://h/…')).toMatchObject({
      code: 'media_origin_status',
      originStatus,
      stepStatus,
      retryable,
      kind,
      httpStatus: 502,
    });
  });
});

describe('a URL for logs', () => {
  it.each([
    [
      'https://images.example.com/p/cat.jpg?X-Amz-Signature=s',
      'https://images.example.com/…/cat.jpg…',
    ],
    ['http://user:pw@h:8080/a#f', 'http://…@h:8080/a…'],
    ['http://h/', 'http://h/'],
    ['http://h/a;jsessionid=s', 'http://h/a…'],
    ['http://h/p/a%3Ftoken%3Ds', 'http://h/…/a…'],
    [`http://h/${'a'.repeat(70)}`, `http://h/${'a'.repeat(64)}…`],
    ['data:image/PNG;base64,AAAA', 'data:image/png (26 characters)'],
    ['data:,x', 'data:unknown type (7 characters)'],
    ['http://', 'unparsable URL (7 characters)'],
  ])('%.40s', (url, redacted) => {
    expect(redactUrl(url)).toBe(redacted);
  });
});
