import { describe, expect, it } from '@jest/globals';
import { TransportError } from '@llm-d/gateway';
import {
  AnswerTimeoutError,
  BadRequestError,
  BadUpstreamAnswerError,
  ClientGoneError,
  CoordinatorError,
  InternalError,
  MediaRefusedError,
  OutcomeError,
  ResponseStartedError,
  UpstreamError,
  UpstreamTransportError,
} from '@llm-d/pipeline';
import { errorCode } from './error-code.ts';

class Refusal extends CoordinatorError {
  override readonly code = 'REFUSED';
  override readonly status: number;

  constructor(status: number) {
    super('refused');
    this.status = status;
  }
}

const media = (code: string, stepStatus: number) =>
  new MediaRefusedError(Object.assign(new Error('m'), { code, stepStatus, safeMessage: 'm' }), {});

describe('errorCode', () => {
  it.each([
    { name: 'a bad request', error: new BadRequestError('x'), code: 'bad_request' },
    {
      name: 'a bad request anywhere in the chain',
      error: new InternalError(
        new UpstreamError('render', 503, { cause: new BadRequestError('x') }),
      ),
      code: 'bad_request',
    },
    { name: 'a body that is too large', error: new Refusal(413), code: 'bad_request' },
    { name: "an upstream's 422", error: new UpstreamError('render', 422), code: 'upstream_4xx' },
    { name: "an upstream's 503", error: new UpstreamError('render', 503), code: 'upstream_5xx' },
    { name: "an upstream's 302", error: new UpstreamError('render', 302), code: 'internal' },
    {
      name: 'an upstream that cannot be reached',
      error: new UpstreamTransportError('decode', new TransportError('timeout')),
      code: 'upstream_transport',
    },
    {
      name: 'a 500 that reached the client',
      error: new ResponseStartedError('decode', 500),
      code: 'upstream_5xx',
    },
    {
      name: 'a 404 that reached the client',
      error: new ResponseStartedError('decode', 404),
      code: 'upstream_4xx',
    },
    {
      name: 'an answer that broke off',
      error: new ResponseStartedError('decode', 0),
      code: 'upstream_transport',
    },
    {
      name: 'an answer that is not JSON',
      error: new BadUpstreamAnswerError('prefill', 'x'),
      code: 'internal',
    },
    {
      name: 'a blocked media URL',
      error: media('media_address_blocked', 400),
      code: 'bad_request',
    },
    {
      name: 'a failing media origin',
      error: media('media_timeout', 424),
      code: 'upstream_transport',
    },
    { name: 'too many downloads', error: media('media_overloaded', 503), code: 'internal' },
    ...(
      [
        { code: 'GATE_DROPPED', counted: 'upstream_4xx' },
        { code: 'DEADLINE_EXCEEDED', counted: 'upstream_5xx' },
        { code: 'INVALID_REQUEST', counted: 'upstream_4xx' },
        { code: 'CANCELLED', counted: 'upstream_4xx' },
        { code: 'INFERENCE_ERROR', counted: 'upstream_5xx' },
      ] as const
    ).map(({ code, counted }) => ({
      name: `C15 a queued request that ended as ${code}`,
      error: new OutcomeError(code, 'x'),
      code: counted,
    })),
    { name: 'a client that left', error: new ClientGoneError(), code: 'cancelled' },
    { name: 'an answer that took too long', error: new AnswerTimeoutError(1), code: 'internal' },
    { name: 'a fault of ours', error: new InternalError(new Error('x')), code: 'internal' },
    { name: 'anything else', error: 'x', code: 'internal' },
  ])('calls $name $code', ({ error, code }) => {
    expect(errorCode(error)).toBe(code);
  });
});
