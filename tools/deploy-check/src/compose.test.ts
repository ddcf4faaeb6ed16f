import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { gatewayOptions } from '@llm-d/gateway-sim';
import { cacheFlags, coordinatorConfig, queueParts } from '@llm-d/local-stack';
import { optionNames } from '@llm-d/worker-sim';
import { Ajv } from 'ajv';
import { composeSchema, type Service } from './compose.ts';
import { pathOf, textOf, yamlOf } from './deploy-files.ts';

const file = 'docker-compose.yml';
const content = yamlOf(file);
const compose = composeSchema.parse(content);
const services = Object.entries(compose.services);
const gatewayProfiles = ['sim', 'envoy', 'epp'];

const schemaFile = join(
  dirname(createRequire(import.meta.url).resolve('dclint')),
  '../schemas/compose.schema.json',
);
const isCompose = new Ajv({ strict: false, logger: false, validateSchema: false }).compile(
  JSON.parse(readFileSync(schemaFile, 'utf8')) as object,
);

const service = (name: string): Service => {
  const found = compose.services[name];
  if (!found) throw new Error(`no service ${name}`);
  return found;
};

/** Names of the services that run with these profiles. */
const activeWith = (profiles: readonly string[]): string[] =>
  services
    .filter(
      ([, { profiles: own }]) => own.length === 0 || own.some((one) => profiles.includes(one)),
    )
    .map(([name]) => name);

describe('the schema of compose', () => {
  it.each([
    ['an unknown key', { services: { a: { image: 'a:1', no_such_key: 1 } } }],
    ['a health check without a type', { services: { a: { healthcheck: { test: 5 } } } }],
  ])('refuses %s', (_name, bad) => {
    expect(isCompose(bad)).toBe(false);
  });

  it.each([file, 'deploy/compose/dev.yaml'])('accepts %s', (name) => {
    isCompose(yamlOf(name));
    expect(isCompose.errors ?? []).toEqual([]);
  });
});

describe.each(gatewayProfiles.flatMap((one) => [[one], [one, 'observability']]))(
  'profiles %s %s',
  (...profiles) => {
    const active = activeWith(profiles);

    it('have all services that others depend on', () => {
      for (const name of active) {
        for (const needed of Object.keys(service(name).depends_on)) {
          expect({ name, needed, isThere: active.includes(needed) }).toMatchObject({
            isThere: true,
          });
        }
      }
    });

    it('have one inference gateway, which alone publishes the port', () => {
      const gateways = active.filter((name) =>
        Object.values(service(name).networks).some(({ aliases }) =>
          aliases.includes('inference-gateway'),
        ),
      );
      expect(gateways).toHaveLength(1);
      const publishing = active.filter((name) =>
        service(name).ports.some((port) => port.includes('GATEWAY_PORT')),
      );
      expect(publishing).toEqual(gateways);
    });
  },
);

it('plain `docker compose up` runs the profile sim', () => {
  expect(readFileSync(pathOf('.env'), 'utf8')).toMatch(/^COMPOSE_PROFILES=sim$/m);
});

describe.each(services)('service %s', (name, one) => {
  it('publishes ports on loopback only', () => {
    for (const port of one.ports) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  it('has an image of one version', () => {
    const tag = /:([^:]*?)\}?$/.exec(one.image)?.[1];
    expect(tag).toMatch(/\d|^local$/);
    expect(one.image).not.toContain('latest');
  });

  it('drops all capabilities and gains no privileges', () => {
    expect(one.cap_drop).toEqual(['ALL']);
    expect(one.security_opt).toEqual(['no-new-privileges:true']);
    expect(one.privileged ?? false).toBe(false);
  });

  it('is probed, unless its image has nothing that could do it', () => {
    const cannot = ['envoy', 'envoy-epp', 'epp', 'otel-collector'];
    expect(one.healthcheck !== undefined).toBe(!cannot.includes(name));
  });

  it('has its files and networks', () => {
    for (const { source } of one.configs) {
      expect(existsSync(pathOf(compose.configs[source]?.file ?? 'nowhere'))).toBe(true);
    }
    for (const [source = ''] of one.volumes.map((volume) => volume.split(':'))) {
      const isThere = source.startsWith('.')
        ? existsSync(pathOf(source))
        : source in compose.volumes;
      expect({ source, isThere }).toMatchObject({ isThere: true });
    }
    expect(Object.keys(compose.networks)).toEqual(
      expect.arrayContaining(Object.keys(one.networks)),
    );
  });

  it('is built read-only for an unprivileged user when it is ours', () => {
    if (one.build === undefined) return;
    const { APP: app } = one.build.args;
    expect(one.build.dockerfile).toBe('deploy/docker/Dockerfile');
    expect(
      ['apps', 'tools'].some((folder) => existsSync(pathOf(`${folder}/${app}/package.json`))),
    ).toBe(true);
    expect(one).toMatchObject({ read_only: true, user: '65532:65532', init: true });
    expect(one.healthcheck?.test.slice(0, 3)).toEqual([
      'CMD',
      '/nodejs/bin/node',
      '/app/healthcheck.mjs',
    ]);
  });
});

it('the override adds to services that are there', () => {
  const { services: changed } = yamlOf('deploy/compose/dev.yaml') as { services: object };
  for (const [name, one] of Object.entries(changed)) {
    expect(compose.services).toHaveProperty(name);
    expect(one).not.toHaveProperty('networks');
  }
});

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
