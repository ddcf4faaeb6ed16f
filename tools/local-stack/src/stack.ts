import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ChildGroup, type ChildSpec } from './child-group.ts';
import { coordinatorConfig, type CoordinatorSettings } from './coordinator-config.ts';
import { cacheFlags, type FoundRedis } from './find-redis.ts';
import { freePorts } from './free-ports.ts';
import { queueParts, queuePorts, type QueueSettings } from './queue.ts';

/** What a stack is made of; everything has a default. */
export interface StackOptions {
  /** Folder for logs and generated configuration. */
  readonly directory: string;
  /** With `kv-sglang` all pods share a host, so there can be one prefill worker only. */
  readonly kvConnector?: 'kv-nixl' | 'kv-shared-storage' | 'kv-sglang' | 'kv-none';
  readonly ecConnector?: 'ec-nixl' | 'ec-shared-storage';
  /** Workers of each role. */
  readonly workers?: { encode: number; prefill: number; decode: number };
  /** Further `SIM_*` variables of all workers. */
  readonly workerEnv?: Readonly<Record<string, string>>;
  /** Lets the coordinator behind the public listener queue requests, and runs them. */
  readonly queue?: QueueSettings | undefined;
  /** Further flags of gateway-sim. */
  readonly gatewayFlags?: readonly string[];
  /** Of the coordinator behind the public listener. */
  readonly coordinator?: CoordinatorSettings;
  /** Runs a media fetcher, which downloads for all coordinators; without it they download themselves. */
  readonly mediaFetcher?: MediaFetcherSettings;
}

/** The media fetcher of a stack. */
export interface MediaFetcherSettings {
  /** Keys that are laid over the generated configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Where its cache is kept beside its own memory; a program is started. */
  readonly redis?: FoundRedis | undefined;
}

/** One simulated worker. */
export interface Pod {
  readonly name: string;
  readonly role: 'encode' | 'prefill' | 'decode';
  readonly url: string;
}

/** A running stack. */
export interface Stack {
  readonly children: ChildGroup;
  /** Where clients go. */
  readonly publicUrl: string;
  /** Where coordinators go. */
  readonly internalUrl: string;
  readonly gatewayAdminUrl: string;
  readonly renderUrl: string;
  /** Undefined without one. */
  readonly mediaFetcherUrl: string | undefined;
  /** What runs queued requests; undefined without a queue. */
  readonly asyncBrokerUrl: string | undefined;
  readonly queueRedisUrl: string | undefined;
  /** The coordinator behind the public listener, addressed directly. */
  readonly coordinatorUrl: string;
  readonly coordinatorDebugUrl: string;
  readonly coordinatorMetricsUrl: string;
  readonly pods: readonly Pod[];
  /** Starts one more coordinator with other pipeline settings; resolves with its address. */
  startCoordinator(name: string, settings: CoordinatorSettings): Promise<string>;
  stop(): Promise<void>;
}

const root = fileURLToPath(new URL('../../../', import.meta.url));
const script = (folder: string): string => join(root, folder, 'dist/main.js');
const host = '127.0.0.1';

/**
 * Starts gateway, render-shim, workers and coordinator on free ports of loopback. When `stop` rejects in the meantime, the
 * children end and its error is thrown.
 *
 * @throws ChildFailedError
 */
export async function startStack(options: StackOptions, stop?: Promise<never>): Promise<Stack> {
  const {
    kvConnector = 'kv-nixl',
    ecConnector = 'ec-nixl',
    workers = { encode: 2, prefill: 2, decode: 2 },
  } = options;
  const directory = resolve(options.directory);
  mkdirSync(join(directory, 'shared'), { recursive: true });
  const children = new ChildGroup(join(directory, 'logs'));
  const podNames = (['encode', 'prefill', 'decode'] as const).flatMap((role) =>
    Array.from({ length: workers[role] }, (_, i) => ({ role, name: `${role}-${i}` })),
  );
  const ports = await freePorts(9 + queuePorts + podNames.length * 3);
  const next = (): number => ports.pop() ?? 0;
  const url = (port: number): string => `http://${host}:${port}`;
  const [publicPort, internalPort, adminPort] = [next(), next(), next()];
  const [renderPort, coordinatorPort] = [next(), next()];
  const [debugPort, metricsPort] = [next(), next()];
  // Coordinators and prefill workers agree on it.
  const bootstrapPort = String(next());
  // Dispatches come in where clients do (deploy.md 4.5).
  const queue =
    options.queue &&
    queueParts(options.queue, {
      directory,
      script: script('apps/async-broker'),
      dispatchUrl: url(publicPort),
      ports: [next(), next()],
    });
  const [internalUrl, renderUrl] = [url(internalPort), url(renderPort)];
  const media =
    options.mediaFetcher &&
    mediaFetcherSpecs(options.mediaFetcher, { directory, port: next(), redisPort: next() });

  const podSpecs = podNames.map(({ role, name }) => {
    const port = next();
    const env = {
      SIM_ROLE: role,
      SIM_HOST: host,
      SIM_PORT: String(port),
      SIM_POD_NAME: name,
      SIM_POD_IP: host,
      SIM_SIDE_PORT_KV: String(next()),
      SIM_SIDE_PORT_EC: String(next()),
      SIM_KV_CONNECTOR: kvConnector.slice('kv-'.length),
      SIM_EC_CONNECTOR: ecConnector.slice('ec-'.length),
      SIM_BOOTSTRAP_PORT: bootstrapPort,
      SIM_SHARED_DIR: join(directory, 'shared'),
      ...options.workerEnv,
    };
    const pod: Pod = { name, role, url: url(port) };
    const spec = { name, script: script('tools/worker-sim'), args: [], env };
    return { pod, spec: { ...spec, readyUrl: `${pod.url}/health/ready` } };
  });
  const pods = podSpecs.map(({ pod }) => pod);

  const coordinatorSpec = (name: string, port: number, settings: CoordinatorSettings) => {
    const place = { gatewayUrl: internalUrl, renderUrl, kvConnector, ecConnector };
    const config = coordinatorConfig(
      { ...place, listenAddress: `${host}:${port}` },
      { ...settings, media: { ...media?.params, ...settings.media } },
    );
    const file = join(directory, `${name}.yaml`);
    // JSON is valid YAML.
    writeFileSync(file, `${JSON.stringify(config, null, 2)}\n`);
    const args = ['--config', file];
    const env = { SGLANG_BOOTSTRAP_PORT: bootstrapPort, ...settings.env };
    return { name, script: script('apps/coordinator'), args, env, readyUrl: `${url(port)}/readyz` };
  };

  const endpointFlags = pods.flatMap(({ name, role, url: podUrl }) => [
    '--endpoint',
    `${name}=${new URL(podUrl).host},${role}`,
  ]);
  const gateway: ChildSpec = {
    name: 'gateway-sim',
    script: script('tools/gateway-sim'),
    args: [
      ...['--host', host, '--coordinator', url(coordinatorPort)],
      ...['--public-port', `${publicPort}`, '--internal-port', `${internalPort}`],
      ...['--admin-port', `${adminPort}`],
      ...endpointFlags,
      ...(options.gatewayFlags ?? []),
    ],
    readyUrl: `${url(adminPort)}/ready`,
  };
  const render: ChildSpec = {
    name: 'render-shim',
    script: script('apps/render-shim'),
    args: ['--listen', `${host}:${renderPort}`],
    readyUrl: `${renderUrl}/readyz`,
  };
  const coordinator = coordinatorSpec('coordinator', coordinatorPort, {
    firstStep: queue?.step,
    ...options.coordinator,
    server: {
      debug_addr: `${host}:${debugPort}`,
      metrics_port: metricsPort,
      ...options.coordinator?.server,
    },
  });
  try {
    const own = [render, gateway, coordinator, ...(media?.specs ?? []), ...(queue?.children ?? [])];
    const all = [...podSpecs.map(({ spec }) => spec), ...own];
    await Promise.race([children.start(all), ...(stop ? [stop] : [])]);
  } catch (error) {
    await children.stopAll();
    throw error;
  }
  return {
    children,
    publicUrl: url(publicPort),
    internalUrl,
    gatewayAdminUrl: url(adminPort),
    renderUrl,
    mediaFetcherUrl: media?.url,
    asyncBrokerUrl: queue?.url,
    queueRedisUrl: queue?.redisUrl,
    coordinatorUrl: url(coordinatorPort),
    coordinatorDebugUrl: url(debugPort),
    coordinatorMetricsUrl: `${url(metricsPort)}/metrics`,
    pods,
    async startCoordinator(name, settings) {
      const [port = 0] = await freePorts(1);
      await children.start([coordinatorSpec(name, port, settings)]);
      return url(port);
    },
    stop: () => children.stopAll(),
  };
}

/** A media fetcher on loopback, its cache, and what coordinators need to use it. */
function mediaFetcherSpecs(
  { config, redis }: MediaFetcherSettings,
  place: { readonly directory: string; readonly port: number; readonly redisPort: number },
) {
  const { directory, port, redisPort } = place;
  const url = `http://${host}:${port}`;
  const ownRedis: ChildSpec[] =
    redis && 'program' in redis
      ? [
          {
            name: 'redis-cache',
            program: redis.program,
            args: cacheFlags(host, redisPort),
            readyUrl: `tcp://${host}:${redisPort}`,
          },
        ]
      : [];
  const redisUrl =
    redis && 'url' in redis ? redis.url : redis ? `redis://${host}:${redisPort}` : '';
  const token = randomUUID();
  const file = join(directory, 'media-fetcher.yaml');
  const written = { listen: `${host}:${port}`, cache: { enabled: true }, ...config };
  writeFileSync(file, `${JSON.stringify(written, null, 2)}\n`);
  const fetcher: ChildSpec = {
    name: 'media-fetcher',
    script: script('apps/media-fetcher'),
    args: ['--config', file],
    // Secrets, in the case of a URL with a password: they are in no file.
    env: { MEDIA_TOKENS: token, MEDIA_CACHE_REDIS_URL: redisUrl },
    readyUrl: `${url}/readyz`,
  };
  return {
    url,
    specs: [...ownRedis, fetcher],
    params: { mode: 'remote', address: url, token },
  };
}
