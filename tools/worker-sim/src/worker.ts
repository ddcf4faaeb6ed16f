import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { hostname } from 'node:os';
import { Engine, type EngineState } from './engine.ts';
import { ecPullPath } from './ec-transfer.ts';
import { joinRoomPath } from './bootstrap.ts';
import { isObject, type JsonObject } from './exact-json.ts';
import { ModelNames } from './inference-input.ts';
import { kvPullPath, kvReleasePath } from './kv-transfer.ts';
import { workerConfig, type WorkerOptions } from './options.ts';
import { loadReader } from './prompt-reader.ts';
import { type RecordedRequest } from './request-log.ts';
import { phasesOf } from './role-rules.ts';
import { serveRequest } from './routes.ts';
import { portOf, sideServer } from './side-channel.ts';

/** A running worker. */
export interface Worker {
  /** `http://host:port` of the API. */
  url: string;
  podName: string;
  /** The port that `remote_port` names, and the one that `peer_port` names. */
  kvPort: number;
  ecPort: number;
  /** Where decode pods find the rooms of this pod; 0 when it has none. */
  bootstrapPort: number;
  /** Same as `/admin/state`. */
  state: () => EngineState;
  /** Same as `/admin/requests`. */
  requests: (requestId?: string) => RecordedRequest[];
  /** Same as `/admin/reset`. */
  reset: () => void;
  /** Ends all connections and timers. */
  close: () => Promise<void>;
}

/** What only an embedder can hand in. */
export interface WorkerParts {
  /** Loads the renderer at once; `/health/ready` is 503 until then. Default: at the first use. */
  preload?: boolean;
  /** Called by fault `oom`; without it the engine only dies. */
  exit?: (code: number) => void;
}

/** Idle connections outlive those of the gateway, so that it never sends into a closing one. */
const keepAliveMs = 75_000;

/** Starts one pod. Throws ZodError on bad options, and when a port is taken. */
export async function startWorker(
  options: WorkerOptions = {},
  parts: WorkerParts = {},
): Promise<Worker> {
  const config = workerConfig(options);
  const podName = config.podName ?? hostname();
  const podIp = config.podIp ?? config.host;
  const kvServer = sideServer({
    [kvPullPath]: (body) => alive(() => answerKvPull(engine, body)),
    [kvReleasePath]: (body) => alive(() => answerKvRelease(engine, body)),
  });
  const ecServer = sideServer({ [ecPullPath]: (body) => alive(() => answerEcPull(engine, body)) });
  const bootstrapServer = sideServer({
    [joinRoomPath]: (body, signal) => answerJoin(engine, body, signal),
  });
  const alive = (answer: () => JsonObject): JsonObject | undefined =>
    engine.deathCause === undefined ? answer() : undefined;
  const server = createServer((request, response) => {
    void serveRequest(engine, request, response);
  });
  server.keepAliveTimeout = keepAliveMs;
  server.requestTimeout = 0;
  const servers = [kvServer, ecServer, bootstrapServer, server];
  await listen(servers, kvServer, config.sidePortKv, config.host);
  await listen(servers, ecServer, config.sidePortEc, config.host);
  const hasRooms = config.kvConnector === 'sglang' && phasesOf[config.role].includes('prefill');
  if (hasRooms) await listen(servers, bootstrapServer, config.bootstrapPort, config.host);
  const bootstrapPort = hasRooms ? portOf(bootstrapServer) : 0;
  const engine = new Engine({
    config: { ...config, podName },
    reader: () => loadReader(new ModelNames(config.models).names, config.renderProfile),
    kvPeer: { host: podIp, port: portOf(kvServer) },
    ecPeer: { host: podIp, port: portOf(ecServer) },
    bootstrapPort,
    exit: parts.exit,
  });
  if (parts.preload) engine.preload();
  await listen(servers, server, config.port, config.host);
  return {
    url: `http://${config.host}:${portOf(server)}`,
    podName,
    kvPort: portOf(kvServer),
    ecPort: portOf(ecServer),
    bootstrapPort,
    state: () => engine.state(),
    requests: (requestId) => engine.log.list(requestId),
    reset: () => engine.reset(),
    close: async () => {
      await Promise.all(servers.map(stop));
      await engine.close();
    },
  };
}

function answerKvPull(engine: Engine, body: JsonObject): JsonObject {
  const { params, prompt_digest: digest } = body;
  const answer = engine.leases.pull(isObject(params) ? params : {}, String(digest));
  if (answer.result === 'expired') {
    engine.metrics.count('vllm:nixl_num_notifications_after_expiry_total');
  }
  return { ...answer };
}

function answerKvRelease(engine: Engine, { params }: JsonObject): JsonObject {
  if (isObject(params)) engine.leases.end(params, 'released');
  return {};
}

async function answerJoin(
  engine: Engine,
  { room, prompt_digest: digest }: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject | undefined> {
  if (engine.deathCause !== undefined) return undefined;
  const meeting = await engine.rooms.meet('decode', String(room), String(digest), signal);
  return { meeting, pod: engine.config.podName };
}

function answerEcPull(engine: Engine, body: JsonObject): JsonObject {
  const { hash, descriptor } = body;
  const result = engine.embeddings.pull(String(hash), isObject(descriptor) ? descriptor : {});
  return { result, pod: engine.config.podName };
}

/** Rejects when the port is taken, after closing what is open already. */
async function listen(
  all: readonly Server[],
  server: Server,
  port: number,
  host: string,
): Promise<void> {
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    await Promise.all(all.map(stop));
    throw error;
  }
}

function stop(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
