import { describe, expect, it } from '@jest/globals';
import {
  BadRequestError,
  ClientGoneError,
  CoordinatorError,
  toCoordinatorError,
  UpstreamError,
} from './errors.ts';
import type * as errors from './errors.ts';
import { toErrorResponse } from './error-response.ts';

// The same file as a second module, as when a step's package has installed its own copy.
const copyPath = './errors.ts?copy';
const copy = (await import(copyPath)) as typeof errors;

describe('errors of another copy of this package', () => {
  const refused = new copy.BadRequestError('no', { param: 'prompt', code: 'NO' });

  it('come from classes of their own', () => {
    expect(copy.BadRequestError).not.toBe(BadRequestError);
    expect(Object.getPrototypeOf(refused)).not.toBe(BadRequestError.prototype);
  });

  it('are instances of the class of the same name and of no other', () => {
    expect(refused).toBeInstanceOf(CoordinatorError);
    expect(refused).toBeInstanceOf(BadRequestError);
    expect(refused).not.toBeInstanceOf(UpstreamError);
    expect(new copy.ClientGoneError()).toBeInstanceOf(ClientGoneError);
    expect(new BadRequestError('no')).toBeInstanceOf(copy.BadRequestError);
  });

  it('count as errors of ours when their class is not one of ours', () => {
    class BudgetError extends copy.CoordinatorError {
      override readonly name = 'BudgetError';
      override readonly code = 'OVER_BUDGET';
      override readonly status = 402;
    }
    const error = toCoordinatorError(new BudgetError('too dear'), 'budget');
    const { status, body } = toErrorResponse(error, 'r');
    expect(status).toBe(402);
    expect(JSON.parse(body.toString())).toMatchObject({
      error: { code: 'OVER_BUDGET', step: 'budget', message: 'too dear (request_id: r)' },
    });
  });

  it('reach the client as they are', () => {
    expect(toCoordinatorError(refused, 'guardrail')).toBe(refused);
    expect(toErrorResponse(refused, 'r').status).toBe(400);
  });

  it('keep what a worker said', () => {
    const relayed = { message: 'too hot', type: 'BadRequestError', param: 'temperature' };
    const error = new copy.UpstreamError('decode', 400, { relayed });
    expect(JSON.parse(toErrorResponse(error, 'r').body.toString())).toMatchObject({
      error: relayed,
    });
  });
});

describe('errors that are none of this package', () => {
  it.each([
    ['an error of the same name', Object.assign(new Error('x'), { name: 'BadRequestError' })],
    ['nothing', undefined],
    ['a text', 'BadRequestError'],
  ])('%s is a fault of ours', (_name, thrown) => {
    expect(thrown).not.toBeInstanceOf(CoordinatorError);
    expect(toCoordinatorError(thrown, 's')).toMatchObject({ status: 500, code: 'INTERNAL_ERROR' });
  });
});
