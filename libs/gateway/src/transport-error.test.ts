import { describe, expect, it } from '@jest/globals';
import { toTransportError, TransportError } from './transport-error.ts';

const withCode = (code: string): Error => Object.assign(new Error('secret 10.1.2.3'), { code });

describe('toTransportError', () => {
  it.each([
    { code: 'ECONNREFUSED', fault: 'connect' },
    { code: 'EHOSTUNREACH', fault: 'connect' },
    { code: 'ENETUNREACH', fault: 'connect' },
    { code: 'ENOTFOUND', fault: 'connect' },
    { code: 'EAI_AGAIN', fault: 'connect' },
    { code: 'UND_ERR_CONNECT_TIMEOUT', fault: 'timeout' },
    { code: 'UND_ERR_HEADERS_TIMEOUT', fault: 'timeout' },
    { code: 'UND_ERR_BODY_TIMEOUT', fault: 'timeout' },
    { code: 'ECONNRESET', fault: 'reset' },
    { code: 'EPIPE', fault: 'reset' },
    { code: 'UND_ERR_SOCKET', fault: 'reset' },
  ])('takes $code for $fault', ({ code, fault }) => {
    const cause = withCode(code);
    const error = toTransportError(cause);
    expect(error).toMatchObject({ fault, cause });
    expect(error.message).not.toContain('10.1.2.3');
  });

  it('takes the first of several addresses that refused', () => {
    const cause = new AggregateError([withCode('ECONNREFUSED'), withCode('ENETUNREACH')]);
    expect(toTransportError(cause).fault).toBe('connect');
  });

  it.each([{ cause: undefined }, { cause: 'text' }, { cause: new Error('without a code') }])(
    'takes $cause for a reset',
    ({ cause }) => {
      expect(toTransportError(cause).fault).toBe('reset');
    },
  );

  it('leaves an error of its own as it is', () => {
    const error = new TransportError('answer-too-large');
    expect(toTransportError(error)).toBe(error);
  });
});
