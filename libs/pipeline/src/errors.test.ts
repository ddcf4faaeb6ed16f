import { TransportError, type TransportFault } from '@llm-d/gateway';
import { describe, expect, it } from '@jest/globals';
import { toErrorResponse } from './error-response.ts';
import {
  AnswerTimeoutError,
  BadRequestError,
  BadUpstreamAnswerError,
  ClientGoneError,
  type CoordinatorError,
  InternalError,
  isMediaFault,
  MediaRefusedError,
  ResponseStartedError,
  toCoordinatorError,
  UpstreamError,
  UpstreamTransportError,
} from './errors.ts';

const secret = new Error('SECRET http://10.0.0.1/?token=SECRET');
const transport = (fault: TransportFault): TransportError =>
  new TransportError(fault, { cause: secret });
const mediaFault = (stepStatus: number, index?: number) =>
  Object.assign(new Error('SECRET'), {
    code: 'media_blocked',
    stepStatus,
    safeMessage: 'the address is not allowed',
    index,
  });

/** Every class of error with what a client gets of it: coordinator.md 2.6 with design.md decisions 3 and 15. */
const table: {
  name: string;
  error: CoordinatorError;
  status: number;
  code: string;
  type: string;
  message: string;
}[] = [
  {
    name: 'a bad request',
    error: new BadRequestError('prompt must be a text', { param: 'prompt' }),
    ...{
      status: 400,
      code: 'BAD_REQUEST',
      type: 'invalid_request_error',
      message: 'prompt must be a text',
    },
  },
  {
    name: 'a bad request with a status and code of its own',
    error: new BadRequestError('too large', { status: 413, code: 'BODY_TOO_LARGE' }),
    ...{ status: 413, code: 'BODY_TOO_LARGE', type: 'invalid_request_error', message: 'too large' },
  },
  ...[400, 401, 403, 404, 408, 409, 412, 413, 422, 429, 499].map((status) => ({
    name: `an upstream's ${status}`,
    error: new UpstreamError('encode[1]', status),
    ...{ status, code: 'UPSTREAM_ERROR', message: `encode[1]: upstream returned HTTP ${status}` },
    type:
      {
        401: 'authentication_error',
        403: 'permission_error',
        404: 'not_found_error',
        429: 'rate_limit_error',
      }[status] ?? 'invalid_request_error',
  })),
  ...[201, 204, 302, 307, 500, 501, 502, 504, 599].map((upstream) => ({
    name: `an upstream's ${upstream}`,
    error: new UpstreamError('prefill', upstream),
    ...{ status: 502, code: 'UPSTREAM_ERROR', type: 'server_error' },
    message: `prefill: upstream returned HTTP ${upstream}`,
  })),
  {
    name: "an upstream's 503",
    error: new UpstreamError('render', 503),
    ...{
      status: 503,
      code: 'UPSTREAM_ERROR',
      type: 'server_error',
      message: 'render: upstream returned HTTP 503',
    },
  },
  ...(
    [
      { fault: 'connect', code: 'UPSTREAM_UNREACHABLE' },
      { fault: 'reset', code: 'UPSTREAM_UNREACHABLE' },
      { fault: 'answer-too-large', code: 'UPSTREAM_ANSWER_TOO_LARGE' },
      { fault: 'answer-undecodable', code: 'UPSTREAM_ANSWER_UNDECODABLE' },
    ] as const
  ).map(({ fault, code }) => ({
    name: `a call without a whole answer: ${fault}`,
    error: new UpstreamTransportError('render', transport(fault)),
    ...{
      status: 502,
      code,
      type: 'server_error',
      message: `render: ${transport(fault).message}`,
    },
  })),
  {
    name: 'a gateway without a pod for the phase',
    error: new UpstreamError('encode[1]', 429, { gatewayFault: 'GATEWAY_NO_CAPACITY' }),
    ...{
      status: 429,
      code: 'GATEWAY_NO_CAPACITY',
      type: 'rate_limit_error',
      message:
        'encode[1]: the gateway has no pod for this phase that can take the request (HTTP 429)',
    },
  },
  {
    name: 'a gateway without its picker',
    error: new UpstreamError('prefill', 500, { gatewayFault: 'GATEWAY_PICKER_DOWN' }),
    ...{
      status: 502,
      code: 'GATEWAY_PICKER_DOWN',
      type: 'server_error',
      message: 'prefill: the gateway cannot reach its endpoint picker (HTTP 500)',
    },
  },
  {
    name: 'an upstream that is too slow',
    error: new UpstreamTransportError('render', transport('timeout')),
    ...{
      status: 504,
      code: 'UPSTREAM_TIMEOUT',
      type: 'server_error',
      message: 'render: the upstream did not answer in time',
    },
  },
  {
    name: 'an answer that makes no sense',
    error: new BadUpstreamAnswerError('render', 'token_ids is not a list', { cause: secret }),
    ...{
      status: 502,
      code: 'UPSTREAM_ANSWER_INVALID',
      type: 'server_error',
      message: 'render: token_ids is not a list',
    },
  },
  {
    name: 'a client that left',
    error: new ClientGoneError(),
    ...{
      status: 499,
      code: 'CLIENT_GONE',
      type: 'invalid_request_error',
      message: 'the client closed the connection',
    },
  },
  {
    name: 'an answer past its time',
    error: new AnswerTimeoutError(120_000),
    ...{
      status: 504,
      code: 'ANSWER_TIMEOUT',
      type: 'server_error',
      message: 'no whole answer within 120000 ms (server.write_timeout)',
    },
  },
  {
    name: 'a fault of ours',
    error: new InternalError(secret),
    ...{ status: 500, code: 'INTERNAL_ERROR', type: 'server_error', message: 'internal error' },
  },
  ...[400, 424, 503].map((status) => ({
    name: `media that cannot be had (${status})`,
    error: new MediaRefusedError(mediaFault(status), {
      param: 'messages[0].content[1]',
      cause: secret,
    }),
    ...{
      status,
      code: 'media_blocked',
      type: status === 503 ? 'server_error' : 'invalid_request_error',
    },
    message: 'messages[0].content[1]: the address is not allowed',
  })),
];

describe.each(table)('$name', ({ error, status, code, type, message }) => {
  const response = toErrorResponse(error, 'id-1');
  const body = JSON.parse(response.body.toString()) as { error: Record<string, unknown> };

  it('has its status, code and text', () => {
    expect(response.status).toBe(status);
    expect(body.error).toMatchObject({ code, type, message: `${message} (request_id: id-1)` });
    expect(Object.keys(body)).toEqual(['error']);
  });

  it('is JSON of its length and keeps its causes to itself', () => {
    expect(response.headers.slice(0, 4)).toEqual([
      ...['content-type', 'application/json', 'content-length', String(response.body.length)],
    ]);
    expect(response.body.toString()).not.toContain('SECRET');
    expect(error.message).not.toContain('SECRET');
  });
});

describe('an error answer', () => {
  it('names request id, step and the member at fault', () => {
    const error = new BadRequestError('no', { param: 'messages[0]' });
    error.step = 'render';
    expect(JSON.parse(toErrorResponse(error, 'id-1').body.toString())).toEqual({
      error: {
        message: 'no (request_id: id-1)',
        type: 'invalid_request_error',
        param: 'messages[0]',
        code: 'BAD_REQUEST',
        step: 'render',
        request_id: 'id-1',
      },
    });
  });

  it('has a null `param` when no member is at fault', () => {
    const body = toErrorResponse(new InternalError(secret), 'id-1').body.toString();
    expect(JSON.parse(body)).toMatchObject({ error: { param: null } });
  });

  it('passes the headers of an overload on', () => {
    const headers = ['retry-after', '7', 'x-should-retry', 'true'];
    const response = toErrorResponse(new UpstreamError('prefill', 429, { headers }), 'id-1');
    expect(response.headers.slice(4)).toEqual(headers);
  });

  it('asks to come back later when media fetching is overloaded, and only then', () => {
    expect(
      toErrorResponse(new MediaRefusedError(mediaFault(503), {}), 'id-1').headers.slice(4),
    ).toEqual(['retry-after', '1']);
    expect(
      toErrorResponse(new MediaRefusedError(mediaFault(424), {}), 'id-1').headers,
    ).toHaveLength(4);
  });

  it('carries what an engine says where that is relayed', () => {
    const relayed = {
      message: 'temperature must be non-negative, got -3.0.',
      type: 'BadRequestError',
      param: 'temperature',
    };
    const error = new UpstreamError('prefill', 400, { relayed });
    error.step = 'prefill';
    expect(JSON.parse(toErrorResponse(error, 'id-1').body.toString())).toEqual({
      error: { ...relayed, code: 'UPSTREAM_ERROR', step: 'prefill', request_id: 'id-1' },
    });
  });

  it('carries a relayed null `param`', () => {
    const relayed = { message: 'm', type: 't', param: null };
    const body = toErrorResponse(new UpstreamError('prefill', 404, { relayed }), 'id-1').body;
    expect(JSON.parse(body.toString())).toMatchObject({ error: { param: null } });
  });
});

describe('an answer that has started', () => {
  it.each([
    { status: 500, message: "decode: the worker's HTTP 500 was passed on" },
    { status: 0, message: 'decode: the answer broke off after it had started' },
  ])('keeps the status $status for logs', ({ status, message }) => {
    expect(new ResponseStartedError('decode', status, { cause: secret })).toMatchObject({
      code: 'RESPONSE_STARTED',
      status,
      message,
      cause: secret,
    });
  });
});

describe('toCoordinatorError', () => {
  it('leaves the errors above as they are and notes the step', () => {
    const error = new BadRequestError('no');
    expect(toCoordinatorError(error, 'render')).toBe(error);
    expect(error.step).toBe('render');
    expect(toCoordinatorError(error, 'decode').step).toBe('render');
  });

  it('keeps causes for the log', () => {
    const cause = transport('timeout');
    expect(toCoordinatorError(cause, 'prefill')).toMatchObject({
      status: 504,
      step: 'prefill',
      cause,
    });
    expect(toCoordinatorError(secret, 'prefill')).toMatchObject({ status: 500, cause: secret });
  });
});

describe('isMediaFault', () => {
  it('knows a fault by its shape', () => {
    expect(isMediaFault(mediaFault(400, 2))).toBe(true);
  });

  it.each([
    ['an object that is no error', { code: 'c', stepStatus: 400, safeMessage: 'm' }],
    ['another error', secret],
    [
      'a status that is no number',
      Object.assign(new Error(), { code: 'c', stepStatus: '400', safeMessage: 'm' }),
    ],
    ['no safe text', Object.assign(new Error(), { code: 'c', stepStatus: 400 })],
    ['nothing', undefined],
  ])('does not take %s for one', (_name, value) => {
    expect(isMediaFault(value)).toBe(false);
  });
});
