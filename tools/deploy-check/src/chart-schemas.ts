import { type ConfigKey, configKeys } from '@llm-d/config';

/** A JSON schema, as far as it is built here. */
export interface Schema {
  readonly [keyword: string]: unknown;
}

const text: Schema = { type: 'string' };
const flag: Schema = { type: 'boolean' };
const list: Schema = { type: 'array' };
const objects: Schema = { type: 'array', items: { type: 'object' } };
/** Whatever Kubernetes takes there. */
const free: Schema = { type: 'object' };
const texts: Schema = {
  type: 'object',
  additionalProperties: { type: ['string', 'number', 'boolean'] },
};
const count = (minimum: number): Schema => ({ type: 'integer', minimum });
const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values });
const id: Schema = { type: ['integer', 'null'], minimum: 1 };

/** An object of these keys and no others. */
const only = (properties: Record<string, Schema>, more: Schema = {}): Schema => ({
  type: 'object',
  additionalProperties: false,
  properties,
  ...more,
});

const probe: Schema = {
  type: 'object',
  properties: {
    periodSeconds: count(1),
    timeoutSeconds: count(1),
    failureThreshold: count(1),
    initialDelaySeconds: count(0),
  },
};

/** Keys that every app has. Helm adds those of `global` and, for the library, `common`; `enabled` is the umbrella's condition. */
const appKeys: Record<string, Schema> = {
  global: free,
  common: free,
  enabled: flag,
  fullnameOverride: { type: 'string', maxLength: 63 },
  commonLabels: texts,
  image: only({
    registry: text,
    repository: { type: 'string', minLength: 1 },
    tag: { type: 'string', not: { const: 'latest' } },
    digest: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
    pullPolicy: oneOf('Always', 'IfNotPresent', 'Never'),
  }),
  imagePullSecrets: objects,
  replicaCount: count(0),
  autoscaling: only({
    mode: oneOf('none', 'hpa', 'keda'),
    minReplicas: count(1),
    maxReplicas: count(1),
    hpa: only({ metrics: objects, behavior: free }),
    keda: only({
      serverAddress: text,
      query: text,
      threshold: { type: ['string', 'number'] },
      pollingIntervalSeconds: count(1),
      cooldownSeconds: count(0),
      fallbackReplicas: count(1),
    }),
  }),
  pdb: only(
    {
      enabled: flag,
      minAvailable: { type: ['integer', 'string'] },
      maxUnavailable: { type: ['integer', 'string'] },
    },
    { not: { required: ['minAvailable', 'maxUnavailable'] } },
  ),
  env: texts,
  extraEnv: objects,
  extraEnvFrom: objects,
  extraVolumes: objects,
  extraVolumeMounts: objects,
  extraContainers: objects,
  initContainers: objects,
  extraObjects: list,
  serviceAccount: only({ create: flag, name: text, annotations: texts }),
  podSecurityContext: {
    type: 'object',
    properties: { runAsNonRoot: { const: true }, runAsUser: id, runAsGroup: id, fsGroup: id },
  },
  containerSecurityContext: {
    type: 'object',
    properties: { allowPrivilegeEscalation: { const: false }, privileged: { const: false } },
  },
  resources: free,
  probes: only({ startup: probe, readiness: probe, liveness: probe }),
  shutdown: only({ drainSeconds: count(0), timeoutSeconds: count(1) }),
  topologySpread: flag,
  affinity: free,
  nodeSelector: texts,
  tolerations: objects,
  priorityClassName: text,
  runtimeClassName: text,
  podAnnotations: texts,
  podLabels: texts,
  metrics: only({ serviceMonitor: only({ enabled: flag, interval: text, labels: texts }) }),
};

const policy = (more: Record<string, Schema> = {}): Schema =>
  only({
    enabled: flag,
    ingressFrom: objects,
    metricsFrom: objects,
    extraIngress: objects,
    extraEgress: objects,
    ...more,
  });

const lastOf = (path: string): string => path.replace(/.*\./, '');

/** A schema of coordinator.yaml: all keys, and no others. Values are checked by `coordinator validate`. */
function coordinatorConfigSchema(): Schema {
  const properties = (section: string): Record<string, Schema> => {
    const own = configKeys.filter((key: ConfigKey) => key.section === section);
    const names = new Set(configKeys.map((key: ConfigKey) => key.section));
    const inner = [...names].filter(
      (name) => name !== '' && name.split('.').slice(0, -1).join('.') === section,
    );
    return {
      ...Object.fromEntries(own.map(({ path }): [string, Schema] => [lastOf(path), {}])),
      ...Object.fromEntries(
        inner.map((name): [string, Schema] => [lastOf(name), only(properties(name))]),
      ),
    };
  };
  const all = properties('');
  const steps = {
    type: 'array',
    items: only({ type: { type: 'string', minLength: 1 }, params: free }, { required: ['type'] }),
  };
  const pipeline = properties('pipeline');
  return only({ ...all, pipeline: only({ ...pipeline, steps }) });
}

const ranges: Schema = { type: 'array', items: { type: 'string', pattern: '/\\d+$' } };
const blockedCidrs = only({ ipv4: ranges, ipv6: ranges });
const ports: Schema = { type: 'array', items: count(1) };
const url: Schema = { type: 'string', pattern: '^(https?://.*)?$' };
const secret = only({ name: text, key: { type: 'string', minLength: 1 } });
const role = only({ replicas: count(1) });

/** Keys of each app beside the common ones. */
const ownKeys: Record<string, Record<string, Schema>> = {
  coordinator: {
    config: coordinatorConfigSchema(),
    renderAddress: url,
    media: only({ mode: oneOf('local', 'remote'), address: url }),
    conditionalDecode: only({ enabled: flag, params: free }),
    queue: only({ enabled: flag, params: free }),
    networkPolicy: policy({
      gatewayTo: objects,
      gatewayPorts: ports,
      redisTo: objects,
      redisPort: count(1),
      blockedCidrs,
    }),
  },
  'render-shim': { config: free, networkPolicy: policy() },
  'media-fetcher': {
    config: free,
    cacheSecret: secret,
    networkPolicy: policy({ blockedCidrs }),
  },
  'async-broker': {
    config: free,
    dispatchAddress: text,
    boardSecret: secret,
    networkPolicy: policy({
      redisTo: objects,
      redisPort: count(1),
      dispatchTo: objects,
      dispatchPorts: ports,
    }),
  },
  'worker-sim': {
    roles: only({ encode: role, prefill: role, decode: role }),
    kvConnector: oneOf('nixl', 'sglang', 'none'),
    ecConnector: oneOf('nixl', 'none'),
    networkPolicy: policy(),
  },
  'gateway-sim': {
    gate: oneOf('decider', 'legacy', 'always412', 'off'),
    networkPolicy: policy(),
  },
};

const listener = only(
  { gateway: { type: 'string', minLength: 1 }, namespace: text, section: text },
  { required: ['gateway'] },
);

/** Values of the umbrella; those of the apps are checked by their own schemas. */
const stackKeys: Record<string, Schema> = {
  global: only({
    imageRegistry: text,
    gatewayAddress: text,
    mediaToken: only({ existingSecret: text, key: text }),
    redis: only({ existingSecret: text, key: text, url: text, cluster: flag }),
  }),
  common: free,
  coordinator: free,
  renderShim: free,
  mediaFetcher: free,
  asyncBroker: free,
  trial: only({
    redis: only({
      enabled: flag,
      image: only({ registry: text, repository: text, tag: text }),
      storage: text,
    }),
    mediaToken: text,
  }),
  workerSim: free,
  gatewaySim: free,
  routing: only({
    enabled: flag,
    strategy: oneOf('split', 'single'),
    public: listener,
    internal: listener,
    hostnames: { type: 'array', items: text },
  }),
  pool: only({
    create: flag,
    name: { type: 'string', minLength: 1 },
    selector: { ...texts, minProperties: 1 },
    targetPort: { type: 'integer', minimum: 1, maximum: 65_535 },
    epp: only({ service: text, port: { type: 'integer', minimum: 1, maximum: 65_535 } }),
    perRole: flag,
    failureMode: oneOf('FailClose', 'FailOpen'),
    eppConfig: only({ create: flag, name: text }),
  }),
  monitoring: only({
    rules: only({ enabled: flag, labels: texts }),
    dashboards: only({ enabled: flag, labels: texts, annotations: texts }),
  }),
  tests: only({ model: text, image: flag }),
};

/** values.schema.json of a chart, as text. */
export function chartSchemaText(chart: string): string {
  const keys = chart === 'stack' ? stackKeys : { ...appKeys, ...ownKeys[chart] };
  const schema = { $schema: 'http://json-schema.org/draft-07/schema#', ...only(keys) };
  return `${JSON.stringify(schema, null, 2)}\n`;
}
