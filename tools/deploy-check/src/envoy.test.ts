import { describe, expect, it } from '@jest/globals';
import { strippedOnPublic } from '@llm-d/gateway-sim';
import {
  type EnvoyConfig,
  type EnvoyListener,
  managerOf,
  readEnvoyConfig,
  routesOf,
  strippedBy,
} from './envoy-config.ts';
import { textOf } from './deploy-files.ts';
import { validateWithEnvoy } from './start-envoy.ts';

const files = ['deploy/envoy/envoy.yaml', 'deploy/envoy/envoy-epp.yaml'];

function listener(config: EnvoyConfig, name: string): EnvoyListener {
  const found = config.static_resources.listeners.find((one) => one.name === name);
  if (!found) throw new Error(`no listener ${name}`);
  return found;
}

describe('the real Envoy', () => {
  it.each([
    ['an unknown key', { no_such_key: 1 }, /no_such_key/],
    [
      'a route to a cluster that is not there',
      (() => {
        const config = readEnvoyConfig('deploy/envoy/envoy.yaml');
        config.static_resources.clusters = config.static_resources.clusters.slice(1);
        return config;
      })(),
      /unknown cluster 'coordinator'/,
    ],
  ])('refuses %s', async (_name, config, reason) => {
    await expect(validateWithEnvoy(config)).rejects.toThrow(reason);
  });

  it.each(files)('accepts %s', async (file) => {
    await expect(validateWithEnvoy(readEnvoyConfig(file))).resolves.toBeUndefined();
  });
});

describe.each(files)('%s', (file) => {
  const config = readEnvoyConfig(file);
  const { listeners, clusters } = config.static_resources;
  const ours = clusters.filter(({ name }) => name !== 'admin');

  it('takes the headers off the public listener that gateway-sim takes off', () => {
    expect(strippedBy(listener(config, 'public')).toSorted()).toEqual(
      [...strippedOnPublic].toSorted(),
    );
  });

  it('keeps the admin interface on loopback', () => {
    expect(config.admin.address.socket_address.address).toBe('127.0.0.1');
  });

  it('puts no time limit on an answer', () => {
    for (const { name } of listeners.filter((one) => one.name !== 'stats')) {
      const routes = routesOf(listener(config, name)).flatMap(({ route }) => route ?? []);
      expect(routes).not.toEqual([]);
      for (const route of routes) {
        expect(route).toMatchObject({ timeout: '0s', idle_timeout: '900s' });
      }
      expect(managerOf(listener(config, name)).stream_idle_timeout).toBe('0s');
    }
  });

  it('keeps the request id of every leg', () => {
    for (const name of ['public', 'internal']) {
      expect(managerOf(listener(config, name))).toMatchObject({
        preserve_external_request_id: true,
        request_id_extension: { typed_config: { pack_trace_reason: false } },
      });
    }
  });

  it('never sends a call without a phase back to the coordinator', () => {
    const targets = routesOf(listener(config, 'internal')).map(({ route }) => route?.cluster);
    expect(targets).not.toContain('coordinator');
    expect(targets.at(-1)).toBeUndefined();
  });

  it('lets more requests through than the default of 1024 to each cluster', () => {
    for (const { circuit_breakers: breakers } of ours) {
      expect(breakers).toMatchObject({
        thresholds: [
          { max_connections: 40_000, max_pending_requests: 40_000, max_requests: 40_000 },
        ],
      });
    }
  });

  it('checks every cluster that has names, at once, and asks nobody who is red', () => {
    for (const { type, health_checks: checks, common_lb_config: common } of ours) {
      if (type === 'ORIGINAL_DST') continue;
      expect(checks).toMatchObject([{ interval: '5s', no_traffic_interval: '5s' }]);
      expect(common).toEqual({ healthy_panic_threshold: { value: 0 } });
    }
  });

  it('has no merge keys, which Envoy does not read', () => {
    expect(textOf(file)).not.toMatch(/^\s*<<:/m);
  });
});

it('both files have the same part for clients', () => {
  const [plain, epp] = files.map((file) => listener(readEnvoyConfig(file), 'public'));
  const { response_headers_to_remove: removed, ...routes } = managerOf(
    epp as EnvoyListener,
  ).route_config;
  expect(removed).toEqual(['x-went-into-resp-headers']);
  managerOf(epp as EnvoyListener).route_config = routes;
  expect(epp).toEqual(plain);
});

it('the picker fails closed, with 503, streams bodies, and its choice is the only destination', () => {
  const text = JSON.stringify(readEnvoyConfig('deploy/envoy/envoy-epp.yaml'));
  expect(text).toContain('"failure_mode_allow":false');
  expect(text).toContain('"status_on_error":{"code":503}');
  expect(text.match(/FULL_DUPLEX_STREAMED/g)).toHaveLength(2);
  const internal = listener(readEnvoyConfig('deploy/envoy/envoy-epp.yaml'), 'internal');
  expect(strippedBy(internal)).toEqual(['x-gateway-destination-endpoint']);
});
