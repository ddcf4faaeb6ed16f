import { tmpdir } from 'node:os';
import { describe, expect, it } from '@jest/globals';
import { loadOptions } from '@llm-d/bench';
import { gatewayOptions } from '@llm-d/gateway-sim';
import { cacheFlags, coordinatorConfig, queueParts } from '@llm-d/local-stack';
import { optionNames } from '@llm-d/worker-sim';
import { service, services } from './compose.ts';
import { textOf, yamlOf } from './deploy-files.ts';

describe('the stack in containers is that of npm start', () => {
  const roles = ['encode', 'prefill', 'decode'];
  const workers = services.filter(([, { environment }]) => environment['SIM_ROLE'] !== undefined);

  it('has the same coordinator configuration, addresses apart', () => {
    const media = { mode: 'remote', address: 'http://media-fetcher:8083' };
    const place = {
      listenAddress: ':8080',
      gatewayUrl: 'http://inference-gateway:8081',
      renderUrl: 'http://render-shim:8082',
      kvConnector: 'kv-nixl',
      ecConnector: 'ec-nixl',
    };
    const firstStep = { type: 'async-broker', params: { redis_url: 'redis://redis-queue:6379' } };
    const { server, gateway, pipeline } = coordinatorConfig(place, { firstStep, media });
    const inFile = yamlOf('deploy/compose/coordinator.yaml') as {
      server: object;
      pipeline: { steps: { type: string; params?: object }[] };
    };
    expect(inFile).toMatchObject({ gateway });
    expect(inFile.server).toEqual({ upstream_errors: server.upstream_errors });
    const { steps, ...keys } = pipeline;
    // It spells out what it has as default.
    expect({ use_openai_format: true, ...inFile.pipeline }).toMatchObject(keys);
    expect(
      inFile.pipeline.steps.map(({ params = {}, ...step }) => ({ ...step, params })),
    ).toMatchObject(steps);
  });

  it('runs the media fetcher with a token that the coordinator shows, and a cache that evicts', () => {
    const { command, environment } = service('media-fetcher');
    expect(command).toEqual(['--listen', ':8083']);
    expect(environment).toMatchObject({
      MEDIA_TOKENS: service('coordinator').environment['COORDINATOR_PIPELINE_STEPS_1_PARAMS_TOKEN'],
      MEDIA_CACHE_REDIS_URL: 'redis://redis-cache:6379',
    });
    const flags = cacheFlags('127.0.0.1', 6379);
    for (const name of ['appendonly', 'maxmemory-policy']) {
      const value = flags[flags.indexOf(`--${name}`) + 1];
      expect(textOf('deploy/compose/redis-cache.conf')).toContain(`${name} ${value}\n`);
    }
  });

  it('runs what is queued, over the public listener, on a server that keeps it', () => {
    expect(yamlOf('deploy/compose/async-broker.yaml')).toEqual({
      listen: ':8084',
      redis: { url: 'redis://redis-queue:6379' },
      dispatch: { address: 'http://inference-gateway:8080' },
    });
    const { children } = queueParts(
      { redis: { program: 'redis-server' } },
      { directory: tmpdir(), script: '', dispatchUrl: '', ports: [1, 2] },
    );
    const flags = children.find(({ name }) => name === 'redis-queue')?.args ?? [];
    for (const name of ['appendonly', 'maxmemory-policy']) {
      const value = flags[flags.indexOf(`--${name}`) + 1];
      expect(textOf('deploy/compose/redis-queue.conf')).toContain(`${name} ${value}\n`);
    }
  });

  it('has a media fetcher, which the coordinator asks and which alone reaches media origins', () => {
    const { environment, networks, healthcheck } = service('media-fetcher');
    const { pipeline } = yamlOf('deploy/compose/coordinator.yaml') as {
      pipeline: { steps: { type: string; params?: Record<string, unknown> }[] };
    };
    // The token's variable names the step by its index.
    expect(pipeline.steps[1]).toMatchObject({
      type: 'replace-media-urls',
      params: { mode: 'remote', address: 'http://media-fetcher:8083' },
    });
    expect(healthcheck?.test.at(-1)).toBe('http://127.0.0.1:8083/readyz');
    const { COORDINATOR_PIPELINE_STEPS_1_PARAMS_TOKEN: token } = service('coordinator').environment;
    expect(token).toBe(environment['MEDIA_TOKENS']);
    expect(Object.keys(networks).toSorted()).toEqual(['control', 'egress']);
    const others = services.filter(([name]) => name !== 'media-fetcher');
    expect(others.filter(([, one]) => 'egress' in one.networks)).toEqual([]);
  });

  it('has the same workers, under the same names', () => {
    expect(workers.map(([name]) => name)).toEqual(
      roles.flatMap((role) => [`${role}-0`, `${role}-1`]),
    );
    for (const [name, { environment, networks }] of workers) {
      expect(environment).toMatchObject({ SIM_POD_NAME: name, SIM_ROLE: name.split('-')[0] });
      expect(networks['phase']?.aliases).toEqual([`worker-${environment['SIM_ROLE']}`]);
    }
  });

  it('sets variables that the workers know', () => {
    const known = optionNames.map(
      (name) => `SIM_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`,
    );
    for (const [, { environment }] of workers) {
      expect(known).toEqual(expect.arrayContaining(Object.keys(environment)));
    }
  });

  it('starts gateway-sim with flags that it takes, and all workers', () => {
    const { command } = service('gateway-sim');
    const options = gatewayOptions(command, {});
    expect(options).toMatchObject({
      ...{ publicPort: 8080, internalPort: 8081, adminPort: 9901 },
      coordinator: 'http://coordinator:8080',
    });
    expect(options.endpoints).toEqual(
      workers.map(([name, { environment }]) => ({
        ...{ name, address: name, port: 8000 },
        labels: { 'llm-d.ai/role': environment['SIM_ROLE'] },
      })),
    );
  });

  it('renders by vLLM when a variable says so, and as npm start does otherwise', () => {
    const { pipeline } = yamlOf('deploy/compose/coordinator.yaml') as {
      pipeline: { steps: { type: string; params?: { address: string } }[] };
    };
    // The variable names the step by its index.
    const { type, params } = pipeline.steps[2] ?? {};
    expect(type).toBe('render');
    expect(service('coordinator').environment).toMatchObject({
      COORDINATOR_PIPELINE_STEPS_2_PARAMS_ADDRESS: `\${RENDER_ADDRESS:-${params?.address}}`,
    });
  });

  it('has a load generator with flags that it takes, which asks where clients do', () => {
    const { command, networks } = service('load');
    const [name, ...flags] = command;
    expect(name).toBe('load');
    const filled = flags.map((flag) => flag.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1'));
    expect(loadOptions(filled)).toMatchObject({
      url: 'http://inference-gateway:8080',
      model: 'sim/model',
    });
    expect(Object.keys(networks)).toEqual(['edge']);
    expect(() => loadOptions(['--ratee=5'])).toThrow(/ratee/);
  });

  it('gives the picker the same workers at their addresses', () => {
    const { endpoints } = yamlOf('deploy/epp/discovery/endpoints.yaml') as { endpoints: object[] };
    expect(endpoints).toEqual(
      workers.map(([name, { environment, networks }]) => ({
        name,
        address: networks['phase']?.ipv4_address,
        port: '8000',
        labels: { 'llm-d.ai/role': environment['SIM_ROLE'] },
      })),
    );
  });
});

describe('vLLM takes the places of the simulated workers', () => {
  const roles = ['encode', 'prefill', 'decode'];
  const transferOf = (role: string, kind: 'kv' | 'ec'): Record<string, unknown> | undefined => {
    const start = `--${kind}-transfer-config=`;
    const flag = service(`vllm-${role}`).command.find((word) => word.startsWith(start));
    return flag === undefined
      ? undefined
      : (JSON.parse(flag.slice(start.length)) as Record<string, unknown>);
  };

  it.each(roles)('under the name that Envoy resolves, with an address of its own: %s', (role) => {
    const { networks, environment, command } = service(`vllm-${role}`);
    expect(networks['phase']?.aliases).toEqual([`worker-${role}`]);
    expect(textOf('deploy/envoy/envoy.yaml')).toContain(
      `address: worker-${role}, port_value: 8000`,
    );
    expect(command.some((word) => word.startsWith('--port'))).toBe(false);
    const address = networks['phase']?.ipv4_address;
    expect(
      services.filter(([, one]) => one.networks['phase']?.ipv4_address === address),
    ).toHaveLength(1);
    const hosts = Object.entries(environment).filter(([name]) => name.endsWith('_CHANNEL_HOST'));
    expect(hosts.length).toBeGreaterThan(0);
    for (const [, host] of hosts) expect(host).toBe(address);
  });

  it('with the connectors of the coordinator', () => {
    expect(yamlOf('deploy/compose/coordinator.yaml')).toMatchObject({
      pipeline: { kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' },
    });
    const nixl = { kv_connector: 'NixlConnector', kv_role: 'kv_both' };
    expect(roles.map((role) => transferOf(role, 'kv'))).toEqual([
      undefined,
      expect.objectContaining(nixl),
      expect.objectContaining(nixl),
    ]);
    expect(roles.map((role) => transferOf(role, 'ec')?.['ec_role'])).toEqual([
      'ec_producer',
      'ec_consumer',
      undefined,
    ]);
  });

  it('on a network without a way out, with a device each', () => {
    for (const role of roles) {
      expect(Object.keys(service(`vllm-${role}`).networks)).toEqual(['phase']);
      expect(service(`vllm-${role}`)).toHaveProperty('deploy.resources.reservations.devices');
    }
    expect(service('vllm-render')).not.toHaveProperty('deploy');
  });
});
