import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import { compose, service, services } from './compose.ts';
import { pathOf, yamlOf } from './deploy-files.ts';

const file = 'docker-compose.yml';
const gatewayProfiles = ['sim', 'envoy', 'epp', 'vllm'];

const require = createRequire(import.meta.url);
// Its types name files that TypeScript does not find.
const { DCLinter } = require('dclint') as {
  DCLinter: new (config: object) => {
    lintFiles(
      paths: string[],
      isRecursive: boolean,
    ): { messages: { rule: string; message: string }[] }[];
  };
};
const schemaFile = join(dirname(require.resolve('dclint')), '../schemas/compose.schema.json');
const isCompose = new Ajv({ strict: false, logger: false, validateSchema: false }).compile(
  JSON.parse(readFileSync(schemaFile, 'utf8')) as object,
);

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

describe('the linter of compose', () => {
  // Order is a matter of what belongs together, images are named and built, and Prettier sets quotes.
  const off = [
    ...['no-build-and-image', 'no-quotes-in-volumes', 'service-keys-order'],
    ...['services-alphabetical-order', 'service-ports-alphabetical-order'],
    ...['service-dependencies-alphabetical-order', 'top-level-properties-order'],
  ];
  const rules = Object.fromEntries(off.map((rule) => [rule, 0]));
  const linter = new DCLinter({ rules, quiet: false, debug: false, exclude: [] });
  const problemsOf = (path: string): string[] =>
    linter
      .lintFiles([path], false)
      .flatMap(({ messages }) => messages.map(({ rule, message }) => `${rule}: ${message}`));

  it.each([
    ['an image of any version', 'services:\n  a:\n    image: a\n', 'explicit-tag'],
    [
      'a port on every interface',
      "services:\n  a:\n    image: a:1\n    ports: ['80:80']\n",
      'unbound-port',
    ],
    [
      'a port twice',
      "services:\n  a: { image: 'a:1', ports: ['127.0.0.1:80:80'] }\n  b: { image: 'b:1', ports: ['127.0.0.1:80:81'] }\n",
      'duplicate-exported-ports',
    ],
  ])('refuses %s', (_name, text, rule) => {
    const folder = mkdtempSync(join(tmpdir(), 'compose-'));
    const path = join(folder, 'docker-compose.yml');
    writeFileSync(path, text);
    try {
      expect(problemsOf(path)).toContainEqual(expect.stringContaining(rule));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('finds nothing to say', () => {
    expect(problemsOf(pathOf(file))).toEqual([]);
  });
});

describe.each(gatewayProfiles.flatMap((one) => [[one], [one, 'observability', 'load']]))(
  'profiles %s %s %s',
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
    const cannot = ['envoy', 'envoy-epp', 'epp', 'otel-collector', 'load'];
    expect(one.healthcheck !== undefined).toBe(!cannot.includes(name));
  });

  it('has its files and networks', () => {
    for (const { source } of one.configs) {
      expect(existsSync(pathOf(compose.configs[source]?.file ?? 'nowhere'))).toBe(true);
    }
    // A variable names a folder of the user's.
    const own = one.volumes.filter((volume) => !volume.startsWith('${'));
    for (const [source = ''] of own.map((volume) => volume.split(':'))) {
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
    if (one.healthcheck === undefined) return;
    expect(one.healthcheck.test.slice(0, 3)).toEqual([
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
