import { describe, expect, it } from '@jest/globals';
import { dispatchHeaders } from './dispatch-headers.ts';

const identity = {
  requestId: 'fresh',
  tenant: 'team-a',
  objective: undefined,
  traceparent: undefined,
  contentType: 'application/json',
  forwarded: [],
};
const headersOf = (change: object): Record<string, string> => {
  const list = dispatchHeaders({ ...identity, ...change });
  return Object.fromEntries(
    list.flatMap((name, index) => (index % 2 === 0 ? [[name, list[index + 1] ?? '']] : [])),
  );
};

describe('headers of a dispatch (2.1, 2.4, 4.8)', () => {
  it('carry a fresh id, the type, the tenant, the mark of a dispatch and nothing else by default', () => {
    expect(headersOf({})).toEqual({
      'content-type': 'application/json',
      'x-request-id': 'fresh',
      'x-llm-d-async-dispatch': '1',
      'x-llm-d-inference-fairness-id': 'team-a',
    });
  });

  it('carry objective, trace and what admission allowed', () => {
    expect(
      headersOf({
        objective: 'reserved-interactive',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        forwarded: ['X-LLM-D-SLO-TTFT-MS', '800'],
      }),
    ).toMatchObject({
      'x-llm-d-inference-objective': 'reserved-interactive',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'x-llm-d-slo-ttft-ms': '800',
    });
  });

  it.each([
    ...['x-llm-d-async-mode', 'X-AP-Mode', 'x-llm-d-tenant', 'X-Team', 'x-request-timeout-seconds'],
    ...['X-Llm-D-Inference-Fairness-Id', 'x-gateway-inference-objective', 'x-request-id', 'Host'],
    ...['content-length', 'content-type', 'transfer-encoding', 'connection', 'upgrade', 'te'],
    ...['accept-encoding', 'EPP-Profile'],
  ])('never carry %s of the client', (name) => {
    expect(headersOf({ forwarded: [name, 'of-the-client'] })).toEqual(headersOf({}));
  });

  it.each([
    { name: 'empty', tenant: '' },
    { name: 'longer than 256 bytes', tenant: 'a'.repeat(257) },
    { name: 'beyond ASCII', tenant: 'größe' },
    { name: 'with a line break', tenant: 'a\nb' },
  ])('go without fairness for a tenant that is $name', ({ tenant }) => {
    expect(headersOf({ tenant })).not.toHaveProperty('x-llm-d-inference-fairness-id');
  });

  it('leave out a forwarded value that would break the message', () => {
    expect(headersOf({ forwarded: ['x-llm-d-slo-ttft-ms', '8\r\nx: y'] })).toEqual(headersOf({}));
  });
});
