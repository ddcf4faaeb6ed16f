import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ChildGroup, type ChildSpec } from './child-group.ts';
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
  /** What runs queued requests; undefined without a queue. */
  readonly asyncBrokerUrl: string | undefined;
  /** The coordinator behind the public listener, addressed directly. */
  readonly coordinatorUrl: string;
  readonly coordinatorDebugUrl: string;
  readonly coordinatorMetricsUrl: string;
  readonly pods: readonly Pod[];
  /** Starts one more coordinator with other pipeline settings; resolves with its address. */
  startCoordinator(name: string, settings: CoordinatorSettings): Promise<string>;
  stop(): Promise<void>;
}

/** What differs between the coordinators of one stack. */
export interface CoordinatorSettings {
  readonly usesOpenAiFormat?: boolean;
  /** Step types in order; steps that need params get them. */
  readonly steps?: readonly string[];
  /** A step before them. */
  readonly firstStep?: object | undefined;
  /** Another render service than the stack's own. */
  readonly renderUrl?: string;
  /** Sections that are laid over the generated configuration. */
  readonly server?: Readonly<Record<string, unknown>>;
  readonly gateway?: Readonly<Record<string, unknown>>;
  readonly pipeline?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

const root = fileURLToPath(new URL('../../../', import.meta.url));
const script = (folder: string): string => join(root, folder, 'dist/main.js');
const host = '127.0.0.1';
const cascade = ['replace-media-urls', 'render', 'encode'];

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
  const ports = await freePorts(7 + queuePorts + podNames.length * 3);
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
  const isConcurrent = kvConnector === 'kv-sglang';
  const lastSteps = isConcurrent ? ['prefill-decode'] : ['prefill', 'decode'];
  const [internalUrl, renderUrl] = [url(internalPort), url(renderPort)];

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
    const steps = (settings.steps ?? [...cascade, ...lastSteps]).map((type) =>
      type === 'render'
        ? { type, params: { address: settings.renderUrl ?? renderUrl, mm_payload: 'auto' } }
        : { type },
    );
    const config = {
      server: {
        listen_addr: `${host}:${port}`,
        metrics_port: 0,
        upstream_errors: 'relay',
        ...settings.server,
      },
      gateway: { address: internalUrl, ...settings.gateway },
      pipeline: {
        kv_connector: kvConnector,
        ec_connector: ecConnector,
        use_openai_format: settings.usesOpenAiFormat ?? true,
        kv_release: 'decode',
        steps: settings.firstStep ? [settings.firstStep, ...steps] : steps,
        ...settings.pipeline,
      },
    };
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
    const all = [...podSpecs.map(({ spec }) => spec), render, gateway, coordinator];
    if (queue) all.push(...queue.children);
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
    asyncBrokerUrl: queue?.url,
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
