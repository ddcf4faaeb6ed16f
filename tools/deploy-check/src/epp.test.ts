import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { yamlOf } from './deploy-files.ts';

/** Kinds of plugins of the router of August 2026, with the parameters that each takes (deploy.md 1.7, 3.5). */
const kinds: Readonly<Record<string, readonly string[]>> = {
  'openai-parser': [],
  'vllmhttp-parser': [],
  'encode-filter': [],
  'prefill-filter': [],
  'label-selector-filter': ['matchLabels', 'matchExpressions'],
  'utilization-detector': [],
  'approx-prefix-cache-producer': [
    ...['autoTune', 'blockSizeTokens', 'maxPrefixTokensToMatch', 'lruCapacityPerServer'],
  ],
  'inflight-load-producer': [],
  'prefix-cache-affinity-filter': [
    ...['affinityThreshold', 'explorationProbability', 'maxTTFTPenaltyMs', 'ttftSource'],
    'peakPrefillThroughput',
  ],
  'token-load-scorer': ['queueThresholdTokens'],
  'active-request-scorer': ['idleThreshold', 'maxBusyScore'],
  'max-score-picker': [],
  'prefix-based-pd-decider': ['nonCachedTokens', 'promptTokens', 'prefixMatchInfoProducerName'],
  'header-profile-handler': ['headerName', 'defaultProfile'],
  'single-profile-handler': [],
  'file-discovery': ['path', 'watchFile'],
  'metrics-data-source': [],
  'core-metrics-extractor': [],
};

const reference = z.strictObject({ pluginRef: z.string(), weight: z.number().optional() });

const configSchema = z.strictObject({
  apiVersion: z.literal('llm-d.ai/v1alpha1'),
  kind: z.literal('EndpointPickerConfig'),
  plugins: z.array(
    z.strictObject({
      type: z.string(),
      name: z.string().optional(),
      parameters: z.record(z.string(), z.unknown()).prefault({}),
    }),
  ),
  requestHandler: z.strictObject({ parsers: z.array(reference) }),
  schedulingProfiles: z.array(z.strictObject({ name: z.string(), plugins: z.array(reference) })),
  dataLayer: z
    .strictObject({
      injectDefaults: z.boolean(),
      discovery: reference,
      sources: z.array(z.strictObject({ pluginRef: z.string(), extractors: z.array(reference) })),
    })
    .optional(),
});

type Config = z.output<typeof configSchema>;

/** What the picker would refuse at its start, or take and not do. */
function problemsOf(content: unknown): string[] {
  const { plugins, requestHandler, schedulingProfiles, dataLayer }: Config =
    configSchema.parse(content);
  const names = plugins.map(({ type, name = type }) => name);
  const used = [
    ...requestHandler.parsers,
    ...schedulingProfiles.flatMap((profile) => profile.plugins),
    ...(dataLayer ? [dataLayer.discovery, ...dataLayer.sources] : []),
    ...(dataLayer?.sources.flatMap(({ extractors }) => extractors) ?? []),
  ].map(({ pluginRef }) => pluginRef);
  return [
    ...plugins.filter(({ type }) => !(type in kinds)).map(({ type }) => `unknown ${type}`),
    ...plugins.flatMap(({ type, parameters }) =>
      Object.keys(parameters)
        .filter((key) => !kinds[type]?.includes(key))
        .map((key) => `unknown ${type}.${key}`),
    ),
    ...names.filter((name, index) => names.indexOf(name) !== index).map((name) => `two ${name}`),
    ...used.filter((name) => !names.includes(name)).map((name) => `no plugin ${name}`),
    ...schedulingProfiles
      .filter((profile) => profile.plugins.at(-1)?.pluginRef !== 'max-score-picker')
      .map(({ name }) => `${name} picks nobody`),
  ];
}

const one = yamlOf('deploy/epp/epp.yaml') as Config;
const ofRole = (role: string): Config => yamlOf(`deploy/epp/three-pools/${role}.yaml`) as Config;
const roles = ['encode', 'prefill', 'decode'];

describe('the check of picker configurations', () => {
  it.each([
    ['an unknown plugin', { plugins: [{ type: 'no-such' }] }, 'unknown no-such'],
    [
      'a parameter that there is not',
      { plugins: [{ type: 'token-load-scorer', parameters: { limit: 1 } }] },
      'unknown token-load-scorer.limit',
    ],
    ['a plugin that is not declared', { plugins: [] }, 'no plugin openai-parser'],
    ['a name twice', { plugins: [...one.plugins, { type: 'openai-parser' }] }, 'two openai-parser'],
    [
      'a profile without a picker',
      { schedulingProfiles: [{ name: 'decode', plugins: [{ pluginRef: 'decode-only' }] }] },
      'decode picks nobody',
    ],
  ])('refuses %s', (_name, change, problem) => {
    expect(problemsOf({ ...one, ...change })).toContain(problem);
  });

  it('refuses an unknown key', () => {
    expect(() => problemsOf({ ...one, profiles: [] })).toThrow(/profiles/);
  });
});

it.each([
  'deploy/epp/epp.yaml',
  'deploy/epp/epp-file-discovery.yaml',
  ...roles.map((role) => `deploy/epp/three-pools/${role}.yaml`),
])('%s is one that the picker takes', (file) => {
  expect(problemsOf(yamlOf(file))).toEqual([]);
});

it.each(roles)('the picker of a pool for %s does what that profile of one pool does', (role) => {
  const { plugins, schedulingProfiles, requestHandler } = ofRole(role);
  const profile = one.schedulingProfiles.find(({ name }) => name === role);
  expect(schedulingProfiles.map((own) => own.plugins)).toEqual([profile?.plugins]);
  expect(requestHandler).toEqual(one.requestHandler);
  // Everything but who reads the header, with the same parameters.
  const handler = { type: 'single-profile-handler' };
  expect([...one.plugins, handler]).toEqual(expect.arrayContaining(plugins));
  expect(plugins).toContainEqual(handler);
});

it('one pool has the three phases as profiles, by the header that the coordinator sends', () => {
  expect(one.schedulingProfiles.map(({ name }) => name)).toEqual(roles);
  expect(one.plugins).toContainEqual({
    type: 'header-profile-handler',
    parameters: { headerName: 'EPP-Profile', defaultProfile: 'decode' },
  });
});
