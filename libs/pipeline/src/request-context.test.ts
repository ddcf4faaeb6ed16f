import { describe, expect, it } from '@jest/globals';
import { requestContext } from './testing.ts';

describe('RequestContext', () => {
  it.each([
    { body: '{"model":"m"}', model: 'm' },
    { body: '{"model":""}', model: '' },
    { body: '{"model":null}', model: '' },
    { body: '{"model":["m"]}', model: '' },
    { body: '{}', model: '' },
  ])('takes the model of $body', ({ body, model }) => {
    expect(requestContext({ body }).model).toBe(model);
  });

  it.each([
    { body: '{"stream":true}', isStreaming: true },
    { body: '{"stream":false}', isStreaming: false },
    { body: '{"stream":"true"}', isStreaming: false },
    { body: '{"stream":1}', isStreaming: false },
    { body: '{"stream":null}', isStreaming: false },
    { body: '{}', isStreaming: false },
  ])('streams for $body: $isStreaming', ({ body, isStreaming }) => {
    expect(requestContext({ body }).isStreaming).toBe(isStreaming);
  });

  it('counts time from the arrival of the request', () => {
    expect(requestContext().elapsedMs()).toBeGreaterThanOrEqual(0);
  });
});
