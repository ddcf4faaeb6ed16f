import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parse } from 'yaml';
import { gateway, refusals, whole } from './chart-refusals.ts';
import {
  type BuiltCharts,
  buildCharts,
  chartNames,
  goldenFile,
  goldenText,
  nameOf,
  type RenderedObject,
  valueSets,
} from './charts.ts';
import { textOf, yamlOf } from './deploy-files.ts';
import { checkType } from './kubernetes-types.ts';
import { podOf, podProblems } from './pod-security.ts';

const howToWrite = 'node --conditions=@llm-d/source tools/deploy-check/src/main.ts';
const isUpdating = process.env['UPDATE_GOLDEN'] !== undefined;
let helm3: BuiltCharts;
let helm4: BuiltCharts;

beforeAll(async () => {
  [helm3, helm4] = await Promise.all([buildCharts('helm3'), buildCharts('helm4')]);
}, 240_000);

afterAll(() => {
  helm3?.remove();
  helm4?.remove();
});

describe.each(valueSets)('values of %s', (valueSet) => {
  let objects: RenderedObject[];

  beforeAll(async () => {
    objects = await helm4.render('stack', { valueSet });
  });

  it('render as the golden file says', () => {
    if (isUpdating) return;
    expect(existsSync(goldenFile(valueSet)) ? 'is there' : howToWrite).toBe('is there');
    expect(goldenText(objects)).toBe(readFileSync(goldenFile(valueSet), 'utf8'));
  });

  it('render the same with Helm 3', async () => {
    expect(await helm3.render('stack', { valueSet })).toEqual(objects);
  });

  it('make objects of their types, each once', () => {
    for (const object of objects) expect(() => checkType(object)).not.toThrow();
    const names = objects.map(nameOf);
    expect(new Set(names).size).toBe(names.length);
  });

  it('make pods of the restricted standard', () => {
    const pods = objects.flatMap((object) => podOf(object) ?? []);
    expect(pods.length).toBeGreaterThan(1);
    for (const pod of pods) expect(podProblems(pod)).toEqual([]);
  });

  it('give a pod more time to end than its app takes', () => {
    for (const object of objects) {
      const pod = podOf(object);
      const file = object.kind === 'Deployment' && configOf(objects, object.metadata.name);
      if (!pod || !file) continue;
      const times = { ...file, ...(file['server'] as object) } as Record<string, string>;
      const seconds = (key: string) => Number.parseInt(times[key] ?? '', 10);
      const drain = 'drain_timeout' in times ? 'drain_timeout' : 'drain_delay';
      expect(pod.terminationGracePeriodSeconds).toBe(
        seconds(drain) + seconds('shutdown_timeout') + 5,
      );
    }
  });
});

/** The configuration file of an app. */
function configOf(objects: readonly RenderedObject[], app: string) {
  const map = objects.find((object) => nameOf(object) === `ConfigMap/${app}`);
  const text = map?.data?.['config.yaml'];
  return text === undefined ? undefined : (parse(text) as Record<string, unknown>);
}

it('the grace period exceeds what drain and shutdown take, whatever they are', async () => {
  const [drain, timeout] = fc.sample(
    fc.tuple(fc.nat(900), fc.integer({ min: 1, max: 3600 })),
    1,
  )[0] ?? [0, 1];
  const shutdown = { drainSeconds: drain, timeoutSeconds: timeout };
  const objects = await helm4.render('stack', {
    values: { ...gateway, coordinator: { shutdown } },
  });
  const pod = objects.find((object) => nameOf(object) === 'Deployment/llm-coordinator');
  expect(pod && podOf(pod)?.terminationGracePeriodSeconds).toBe(drain + timeout + 5);
});

describe.each(['helm3', 'helm4'] as const)('%s', (major) => {
  it.each(refusals)('refuses %s, and names it', async (_name, options, reason) => {
    const charts = major === 'helm3' ? helm3 : helm4;
    await expect(charts.render('stack', options)).rejects.toThrow(reason);
  });

  it('finds nothing to say about the charts', async () => {
    const charts = major === 'helm3' ? helm3 : helm4;
    const config = { gateway: { address: 'http://gateway' } };
    await charts.lint('coordinator', { values: { config } });
    await charts.lint('render-shim');
    await charts.lint('stack', { valueSet: 'laptop' });
  });
});

describe('the notes', () => {
  const policyIsOff = /WARNING: coordinator\.networkPolicy is off/;

  it.each([
    ['laptop', [policyIsOff, /WARNING: trial\.redis is one replica/, /NOTE: simulated workers/]],
    ['single-listener', [policyIsOff, /WARNING: with one listener a client/]],
    ['production', []],
  ] as [string, RegExp[]][])('of %s warn of what its values mean', async (valueSet, warnings) => {
    const notes = await helm4.notes({ valueSet });
    expect(notes).toContain('The coordinator is http://llm-coordinator.llm-d:8080');
    for (const warning of warnings) expect(notes).toMatch(warning);
    if (warnings.length === 0) expect(notes).not.toMatch(/WARNING|NOTE/);
  });

  it.each([
    [
      'private addresses for media',
      {
        config: {
          pipeline: {
            steps: [
              { type: 'replace-media-urls', params: { allow_private_networks: true } },
              { type: 'decode' },
            ],
          },
        },
      },
      /WARNING: allow_private_networks/,
    ],
    [
      'a node that cannot be drained',
      { autoscaling: { mode: 'hpa', minReplicas: 2 }, pdb: { minAvailable: 2 } },
      /WARNING: coordinator\.pdb\.minAvailable equals/,
    ],
  ])('warn of %s', async (_name, coordinator, warning) => {
    expect(await helm4.notes({ values: { ...gateway, coordinator } })).toMatch(warning);
  });
});

it('there are the twelve value sets', () => {
  expect(valueSets.toSorted()).toEqual(
    [
      ...['laptop', 'minimal', 'production', 'ha-redis', 'single-listener', 'no-media-service'],
      ...['sglang', 'shared-storage', 'proxy-render', 'async-off', 'everything', 'air-gapped'],
    ].toSorted(),
  );
});

it('a platform may choose the user ids of pods', async () => {
  const podSecurityContext = { runAsUser: null, runAsGroup: null, fsGroup: null };
  const objects = await helm4.render('stack', {
    values: { ...gateway, coordinator: { podSecurityContext } },
  });
  const pod = objects.find((object) => nameOf(object) === 'Deployment/llm-coordinator');
  expect(pod && podOf(pod)?.securityContext).toEqual({
    runAsNonRoot: true,
    seccompProfile: { type: 'RuntimeDefault' },
  });
});

it('stack-valkey hands Valkey what a queue needs, and its address to the apps', async () => {
  const objects = await helm4.renderWithValkey({ values: gateway });
  const given = objects.find((object) => nameOf(object) === 'ConfigMap/valkey')?.data?.['values'];
  const { valkeyConfig, dataStorage } = parse(given ?? '') as {
    valkeyConfig: string;
    dataStorage: object;
  };
  for (const line of ['maxmemory-policy noeviction', 'appendonly yes']) {
    expect(valkeyConfig.split('\n')).toContain(line);
    expect(textOf('deploy/compose/redis-queue.conf').split('\n')).toContain(line);
  }
  expect(dataStorage).toMatchObject({ enabled: true });
  const users = objects.filter((object) =>
    JSON.stringify(object).includes('"redis://llm-valkey:6379"'),
  );
  expect(users.map(nameOf)).toEqual(['Deployment/llm-async-broker', 'Deployment/llm-coordinator']);
});

it('each app is installed alone, too', async () => {
  for (const chart of chartNames.filter((name) => name !== 'stack')) {
    const objects = await helm4.render(chart, { values: whole });
    expect(objects.map(({ kind }) => kind)).toContain('Deployment');
  }
});

describe('the routes', () => {
  const routesOf = async (valueSet: string) => {
    const objects = await helm4.render('stack', { valueSet });
    const spec = (name: string) =>
      objects.find((object) => nameOf(object) === `HTTPRoute/llm-${name}`)?.spec as {
        rules: {
          matches: { path: { type: string; value: string }; headers?: { value: string }[] }[];
          timeouts: object;
        }[];
      };
    return { clients: spec('clients'), phases: spec('phases') };
  };

  it.each(['production', 'single-listener'])('of %s have no time limit', async (valueSet) => {
    const { clients, phases } = await routesOf(valueSet);
    for (const { timeouts } of [...clients.rules, ...phases.rules]) {
      expect(timeouts).toEqual({ request: '0s' });
    }
  });

  it('on one listener send each path of a client to a phase when it has the header', async () => {
    const { clients, phases } = await routesOf('single-listener');
    const exact = clients.rules.flatMap(({ matches }) =>
      matches.filter(({ path }) => path.type === 'Exact').map(({ path }) => path.value),
    );
    for (const phase of ['encode', 'prefill', 'decode']) {
      const paths = phases.rules.flatMap(({ matches }) =>
        matches
          .filter(({ headers }) => headers?.[0]?.value === phase)
          .map(({ path }) => path.value),
      );
      expect(paths).toEqual([...exact, '/']);
    }
  });
});

describe('a pool for each role', () => {
  const roles = ['encode', 'prefill', 'decode'];

  it.each(['split', 'single'])('is where the routes of its phase lead: %s', async (strategy) => {
    const objects = await helm4.render('stack', {
      values: {
        ...gateway,
        routing: { enabled: true, strategy },
        pool: { create: true, perRole: true },
      },
    });
    for (const object of objects) expect(() => checkType(object)).not.toThrow();
    const { rules } = objects.find((object) => nameOf(object) === 'HTTPRoute/llm-phases')?.spec as {
      rules: { matches: { headers: { value: string }[] }[]; backendRefs: { name: string }[] }[];
    };
    const led = rules.map(({ matches, backendRefs }) => [
      [...new Set(matches.flatMap(({ headers }) => headers.map(({ value }) => value)))],
      backendRefs.map(({ name }) => name),
    ]);
    expect(led).toEqual(roles.map((role) => [[role], [`workers-${role}`]]));
    const pools = objects.filter(({ kind }) => kind === 'InferencePool');
    expect(pools.map(({ metadata, spec }) => [metadata.name, spec])).toEqual(
      roles.toSorted().map((role) => [
        `workers-${role}`,
        expect.objectContaining({
          selector: { matchLabels: { 'llm-d.ai/guide': 'coordinator', 'llm-d.ai/role': role } },
          endpointPickerRef: expect.objectContaining({ name: `workers-epp-${role}` }),
        }),
      ]),
    );
    for (const role of roles) {
      const map = objects.find(
        (object) => nameOf(object) === `ConfigMap/workers-epp-config-${role}`,
      );
      expect(parse(map?.data?.['epp.yaml'] ?? '')).toEqual(
        yamlOf(`deploy/epp/three-pools/${role}.yaml`),
      );
    }
  });
});
