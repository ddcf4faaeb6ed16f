import { type AsyncHost, type QueueOptions } from '@llm-d/pipeline';
import { buildStep } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { asyncBroker } from './async-broker.ts';
import { lanesOf, placementOf } from './routes.ts';

/** Builds the step and gives what it opened its queue with. */
function opened(params: Record<string, unknown>): QueueOptions {
  let given: QueueOptions | undefined;
  const host: AsyncHost = {
    openQueue(options) {
      given = options;
      return unusedQueue;
    },
    serveRequests() {},
  };
  buildStep(asyncBroker, { redis_url: 'redis://127.0.0.1', ...params }, { asyncHost: host });
  if (!given) throw new Error('no queue was opened');
  return given;
}

const unused = (): never => {
  throw new Error('nothing is asked of a queue at the start');
};
const unusedQueue: ReturnType<AsyncHost['openQueue']> = {
  ...{ submit: unused, fetch: unused, confirmFetch: unused, wait: unused, cancel: unused },
  acquireQuota: unused,
};

describe('a configuration of async-broker that cannot work', () => {
  it.each([
    { name: 'C1 without a Redis URL', params: { redis_url: undefined }, message: /redis_url/ },
    { name: 'C1 with an empty one', params: { redis_url: '' }, message: /redis_url/ },
    { name: 'with an HTTP URL', params: { redis_url: 'http://redis' }, message: /redis_url/ },
    {
      name: 'C1 with a strange wakeup_mode',
      params: { wakeup_mode: 'sometimes' },
      message: /wakeup_mode: expected one of auto, notify, poll, got "sometimes"/,
    },
    {
      name: 'C1 with an unknown key',
      params: { qouta: {} },
      message: /qouta: expected a known parameter \(did you mean quota\?\)/,
    },
    {
      name: 'C2 that forwards the mode header',
      params: { forward_headers: ['X-AP-Mode'] },
      message: /forward_headers: x-ap-mode/,
    },
    {
      name: 'C2 that forwards a mode header of its own',
      params: { mode_header: 'x-mode', forward_headers: ['X-Mode'] },
      message: /forward_headers: x-mode/,
    },
    {
      name: 'C2 that forwards the fairness header',
      params: { forward_headers: ['X-LLM-D-Inference-Fairness-ID'] },
      message: /forward_headers: x-llm-d-inference-fairness-id/,
    },
    ...[
      ...['x-llm-d-async-mode', 'x-llm-d-tenant', 'x-team', 'x-request-timeout-seconds'],
      ...['x-gateway-inference-objective', 'x-request-id', 'host', 'content-length', 'te'],
      ...['content-type', 'transfer-encoding', 'connection', 'upgrade', 'epp-profile'],
      ...['authorization', 'x-llm-d-inference-objective', 'x-gateway-inference-fairness-id'],
    ].map((header) => ({
      name: `that forwards ${header} (2.4)`,
      params: { forward_headers: [header] },
      message: new RegExp(`forward_headers: ${header} may not be forwarded`),
    })),
    {
      name: 'C3 with timeouts for passthrough',
      params: { timeouts: { passthrough: {} } },
      message: /timeouts: .*passthrough/,
    },
    {
      name: 'C3 with a negative wait_cap_seconds',
      params: { wait_cap_seconds: -1 },
      message: /wait_cap_seconds: .*got -1/,
    },
    {
      name: 'C3 with a negative default',
      params: { timeouts: { wait: { default_seconds: -5 } } },
      message: /timeouts: wait: default_seconds: .*got -5/,
    },
    {
      name: 'C3 with a negative window',
      params: { quota: { window_seconds: -60 } },
      message: /quota: window_seconds: .*got -60/,
    },
    {
      name: 'C3 with a negative limit',
      params: { quota: { limits: { 'team-a': -1 } } },
      message: /quota: limits: team-a: .*got -1/,
    },
    {
      name: 'with a negative fetch_grace_seconds',
      params: { fetch_grace_seconds: -1 },
      message: /fetch_grace_seconds/,
    },
    {
      name: 'with a default above the maximum',
      params: { timeouts: { enqueue: { default_seconds: 9, max_seconds: 8 } } },
      message: /timeouts: enqueue: default_seconds/,
    },
    {
      name: 'with deadlines of more than a week',
      params: { timeouts: { enqueue: { max_seconds: 604_801 } } },
      message: /max_seconds/,
    },
    {
      name: 'with one header for two purposes',
      params: { tenant_header: 'x-a', mode_header: 'X-A' },
      message: /tenant_header: x-a is a mode_header already/,
    },
    { name: 'without a tenant header', params: { tenant_header: [] }, message: /tenant_header/ },
    {
      name: 'with a queue that Redis Cluster cannot name',
      params: { routes: [{ queue: 'a:b' }] },
      message: /routes: 0: queue/,
    },
    {
      name: 'with an objective that inverts the quota (2.3, R9)',
      params: {
        objectives: { async: { reserved: 'low', overflow: 'high' } },
        priorities: { low: 1, high: 2 },
      },
      message: /objectives: async: expected low \(priority 1\) to outrank high \(priority 2\)/,
    },
  ])('$name does not start', ({ params, message }) => {
    expect(() => opened(params)).toThrow(message);
  });

  it('does not start in a program that has no queue', () => {
    expect(() => buildStep(asyncBroker, { redis_url: 'redis://h' })).toThrow('has no queue');
  });
});

describe('a configuration of async-broker', () => {
  it('C4 may have the keys that the pipeline gives to all steps', () => {
    const params = { kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' };
    expect(opened(params).url).toBe('redis://127.0.0.1');
  });

  it('may forward credentials when it says so', () => {
    const params = { forward_headers: ['authorization'], allow_authorization: true };
    expect(() => opened(params)).not.toThrow();
  });

  it('opens its queue with defaults', () => {
    const { quotaOf, ...options } = opened({});
    expect(options).toEqual({
      url: 'redis://127.0.0.1',
      lanes: ['request-sortedset'],
      resultMs: 3_600_000,
      fetchGraceMs: 60_000,
      idConflict: 'reject',
      rerunOnRetry: [],
      ackDurability: 'none',
      appendOnlyFile: 'require',
      cancelActiveOnDisconnect: true,
      deleteActive: 'abort',
      order: 'edf',
    });
    expect(quotaOf('anybody')).toBeUndefined();
  });

  it('hands on what makes it like upstream, and its order', () => {
    const quota = { compat_counters: true, attribute: 'team', window_seconds: 60 };
    expect(opened({ delete_active: 'detach', ordering: 'fair-edf', quota })).toMatchObject({
      deleteActive: 'detach',
      order: 'fair-edf',
      compatCounters: { attribute: 'team', windowSeconds: 60 },
    });
  });

  it('has quotas by tenant, of which 0 is none', () => {
    const { quotaOf } = opened({ quota: { limits: { a: 2, b: 0 } } });
    expect([quotaOf('a'), quotaOf('b'), quotaOf('toString')]).toEqual([2, undefined, undefined]);
  });
});

describe('routes (2.3)', () => {
  const params = {
    routes: [
      { model: 'big', tenant: 'vip', queue: 'vip', tier: 'interactive' },
      { model: 'big', tenant: '', queue: 'big', tier: undefined },
      { model: '', tenant: 'cheap', queue: undefined, tier: 'nightly' },
    ],
    default_queue: 'rest',
    default_tier: 'async',
  };

  it.each([
    { model: 'big', tenant: 'vip', lane: 'vip', tier: 'interactive' },
    { model: 'big', tenant: 'cheap', lane: 'big', tier: 'async' },
    { model: 'small', tenant: 'cheap', lane: 'rest', tier: 'batch' },
    { model: 'Big', tenant: 'vip', lane: 'rest', tier: 'async' },
  ])('send $model of $tenant to $lane as $tier', ({ model, tenant, lane, tier }) => {
    expect(placementOf(params, model, tenant)).toMatchObject({ lane, tier });
  });

  it('name all queues', () => {
    expect(lanesOf(params)).toEqual(['rest', 'vip', 'big']);
  });
});
