import { describe, expect, it } from '@jest/globals';
import { relayedError } from './relayed-error.ts';

const vllm = (error: object): Buffer => Buffer.from(JSON.stringify({ error }));
const whole = {
  message: 'temperature must be non-negative, got -3.0.',
  type: 'BadRequestError',
  param: 'temperature',
  code: 400,
};

describe('relayedError', () => {
  it.each([400, 404, 413, 422])('lets the error object of a %i through', (status) => {
    expect(relayedError(status, vllm(whole))).toEqual({
      message: whole.message,
      type: 'BadRequestError',
      param: 'temperature',
    });
  });

  it.each([200, 401, 403, 408, 409, 412, 429, 500, 502, 503])(
    'holds that of a %i back',
    (status) => {
      expect(relayedError(status, vllm(whole))).toBeUndefined();
    },
  );

  it.each([
    ['no JSON', Buffer.from('<html>')],
    ['JSON that was cut', vllm(whole).subarray(0, 40)],
    ['no error object', Buffer.from('{"message":"m","type":"t"}')],
    ['an error that is a text', Buffer.from('{"error":"m"}')],
    ['no type', vllm({ message: 'm' })],
    ['a message that is no text', vllm({ message: 1, type: 't' })],
    ['a type that is no text', vllm({ message: 'm', type: null })],
    ['a param that is no text', vllm({ message: 'm', type: 't', param: {} })],
    ['nothing', Buffer.alloc(0)],
  ])('holds %s back', (_name, body) => {
    expect(relayedError(400, body)).toBeUndefined();
  });

  it.each([{}, { param: null }, { param: '' }])('has a null param for %j', (param) => {
    expect(relayedError(400, vllm({ message: 'm', type: 't', ...param }))?.param).toBeNull();
  });

  it('takes control characters out', () => {
    expect(relayedError(400, vllm({ message: 'a\r\nb\u0000c\u009b', type: 't\t' }))).toMatchObject({
      message: 'a  b c ',
      type: 't ',
    });
  });

  it('cuts a long text and leaves no half character at the end', () => {
    const long = relayedError(
      400,
      vllm({ message: `${'x'.repeat(2047)}😀`, type: 'y'.repeat(9999) }),
    );
    expect(long?.message).toBe('x'.repeat(2047));
    const { message = '' } =
      relayedError(400, vllm({ message: '語'.repeat(999), type: 't' })) ?? {};
    expect(message).toBe('語'.repeat(682));
    expect(long?.type).toHaveLength(2048);
  });
});
