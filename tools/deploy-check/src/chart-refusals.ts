import { type RenderOptions } from './charts.ts';

/** The least values of the umbrella. */
export const gateway = { global: { gatewayAddress: 'http://gateway' } };

/** The same with what media fetcher and queue need. */
export const whole = {
  global: {
    ...gateway.global,
    redis: { url: 'redis://redis:6379' },
    mediaToken: { existingSecret: 'token' },
  },
};

/** Values that the umbrella refuses: what is wrong with them, and what the message has to name. */
export const refusals: [string, RenderOptions, RegExp][] = [
  ['an unknown key', { values: { ...gateway, coordinatr: {} } }, /coordinatr/],
  [
    'an unknown key of an app',
    { values: { ...gateway, coordinator: { replicas: 2 } } },
    /replicas/,
  ],
  [
    'an unknown key of coordinator.yaml',
    { values: { ...gateway, coordinator: { config: { gateway: { adress: 'http://a' } } } } },
    /adress/,
  ],
  [
    'a number that is text',
    { values: { ...gateway, coordinator: { replicaCount: 'two' } } },
    /replicaCount/,
  ],
  [
    'a way to scale that there is not',
    { values: { ...gateway, coordinator: { autoscaling: { mode: 'vpa' } } } },
    /autoscaling[./]mode/,
  ],
  [
    'both numbers of a disruption budget',
    { values: { ...gateway, coordinator: { pdb: { minAvailable: 1, maxUnavailable: 1 } } } },
    /pdb/,
  ],
  [
    'the tag latest',
    { values: { ...gateway, coordinator: { image: { tag: 'latest' } } } },
    /image[./]tag/,
  ],
  [
    'a digest that is none',
    { values: { ...gateway, coordinator: { image: { digest: 'sha256:12' } } } },
    /image[./]digest/,
  ],
  [
    'a pod as root',
    { values: { ...gateway, coordinator: { podSecurityContext: { runAsUser: 0 } } } },
    /runAsUser/,
  ],
  [
    'a strategy of routes that there is not',
    { values: { ...gateway, routing: { strategy: 'both' } } },
    /routing[./]strategy/,
  ],
  [
    'a step without a type',
    { values: { ...gateway, coordinator: { config: { pipeline: { steps: [{ params: {} }] } } } } },
    /steps/,
  ],
  ['no gateway', {}, /config\.gateway\.address: the address of the gateway's listener for phases/],
  [
    'shutdown times in two places',
    { values: { ...gateway, coordinator: { config: { server: { shutdown_timeout: '30s' } } } } },
    /config\.server\.shutdown_timeout: set shutdown\.timeoutSeconds/,
  ],
  [
    'no render service',
    { values: { ...gateway, renderShim: { enabled: false } } },
    /needs coordinator\.renderAddress/,
  ],
  [
    'a gateway-sim without workers',
    { values: { ...gateway, gatewaySim: { enabled: true } } },
    /needs workerSim\.enabled/,
  ],
  [
    'a pool that fails open',
    { values: { ...gateway, pool: { create: true, failureMode: 'FailOpen' } } },
    /pool\.failureMode: FailOpen would send phases to pods of any role/,
  ],
  [
    'one listener for both routes',
    {
      values: {
        ...gateway,
        routing: { enabled: true, internal: { gateway: 'inference-gateway', section: 'public' } },
      },
    },
    /routing\.internal: with strategy split it must be another listener/,
  ],
  [
    'a media fetcher that nobody uses',
    { values: { ...whole, mediaFetcher: { enabled: true } } },
    /set coordinator\.media\.mode: remote/,
  ],
  [
    'a media fetcher without a token',
    {
      values: {
        ...gateway,
        mediaFetcher: { enabled: true },
        coordinator: { media: { mode: 'remote' } },
      },
    },
    /global\.mediaToken\.existingSecret: a Secret with the token/,
  ],
  [
    'a queue that nobody runs',
    { values: { ...whole, coordinator: { queue: { enabled: true } } } },
    /set asyncBroker\.enabled: true/,
  ],
  [
    'a queue without Redis',
    {
      values: {
        ...gateway,
        asyncBroker: { enabled: true },
        coordinator: { queue: { enabled: true } },
      },
    },
    /global\.redis: existingSecret with the URL of the queue's Redis, or url/,
  ],
  [
    'a queue beside steps of one’s own',
    {
      values: {
        ...whole,
        asyncBroker: { enabled: true },
        coordinator: {
          queue: { enabled: true },
          config: { pipeline: { steps: [{ type: 'decode' }] } },
        },
      },
    },
    /config\.pipeline\.steps replaces all steps/,
  ],
  [
    'a probe of decode pods beside steps of one’s own',
    {
      values: {
        ...gateway,
        coordinator: {
          conditionalDecode: { enabled: true },
          config: { pipeline: { steps: [{ type: 'decode' }] } },
        },
      },
    },
    /leave queue\.enabled, conditionalDecode\.enabled and media\.mode/,
  ],
  [
    'a policy that names no gateway',
    { values: { ...gateway, coordinator: { networkPolicy: { enabled: true } } } },
    /networkPolicy\.gatewayTo: name the pods of the gateway/,
  ],
  [
    'routes without the Gateway API',
    { values: { ...gateway, routing: { enabled: true } }, apis: [] },
    /routing\.enabled needs the Gateway API/,
  ],
  [
    'a pool without its API',
    { values: { ...gateway, pool: { create: true } }, apis: [] },
    /pool\.create needs the Gateway API Inference Extension/,
  ],
  [
    'KEDA without KEDA',
    { values: { ...gateway, coordinator: { autoscaling: { mode: 'keda' } } }, apis: [] },
    /autoscaling\.mode: keda needs KEDA/,
  ],
  [
    'KEDA without Prometheus',
    { values: { ...gateway, coordinator: { autoscaling: { mode: 'keda' } } } },
    /autoscaling\.keda\.serverAddress: the address of Prometheus/,
  ],
  [
    'monitors without their operator',
    {
      values: { ...gateway, coordinator: { metrics: { serviceMonitor: { enabled: true } } } },
      apis: [],
    },
    /metrics\.serviceMonitor\.enabled needs the Prometheus operator/,
  ],
];
