import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { Agent } from 'undici';
import { serveAdmin } from './admin.ts';
import { serveClient } from './client-call.ts';
import { EndpointTable } from './endpoints.ts';
import { answerText } from './forward.ts';
import { firstValue, requestIdOf } from './headers.ts';
import { startHealthChecks } from './health-checks.ts';
import { type Leg, LegLog } from './leg-log.ts';
import { type GatewayOptions, gatewaySchema } from './options.ts';
import { type PhaseContext, servePhase } from './phase-call.ts';
import { PrefixIndex } from './prefix-index.ts';
import { seededRandom } from './random.ts';

/** A running gateway. */
export interface Gateway {
  /** Clients call here, the coordinator calls the internal one. */
  publicUrl: string;
  internalUrl: string;
  adminUrl: string;
  /** Same as `/picks`. */
  legs: (requestId?: string) => Leg[];
  /** Ends all connections and timers. */
  close: () => Promise<void>;
}

const keepAliveMs = 75_000;
const connectTimeoutMs = 5000;

/** Starts all three listeners. `log` gets every leg as it ends. Throws ZodError on bad options. */
export async function startGateway(
  options: GatewayOptions = {},
  log: (leg: Leg) => void = () => undefined,
): Promise<Gateway> {
  const config = gatewaySchema.parse(options);
  // Streams last for minutes and are many: neither time nor connections are capped here.
  const agent = new Agent({
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: connectTimeoutMs },
  });
  const coordinators = (config.coordinator?.split(',') ?? []).map((url) => new URL(url).origin);
  let turn = 0;
  const table = new EndpointTable(config.endpoints, config.ejectMs);
  const legs = new LegLog(log);
  const context: PhaseContext = {
    config,
    agent,
    table,
    index: new PrefixIndex(config.indexBlocks),
    random: seededRandom(config.seed),
  };
  const serve = async (
    listener: Leg['listener'],
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> => {
    const startedMs = performance.now();
    const profile = firstValue(request.headers['epp-profile']);
    const isPhase = listener === 'internal' || (config.singleListener && profile !== undefined);
    const leg = legs.open({
      leg: isPhase ? 'phase' : 'client',
      listener,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      request_id: requestIdOf(request.headers),
      profile: isPhase ? profile : undefined,
    });
    try {
      await (isPhase
        ? servePhase(context, request, response, leg)
        : serveClient(
            { agent, coordinator: coordinators[turn++ % coordinators.length] },
            request,
            response,
            leg,
          ));
    } catch (error) {
      if (!response.headersSent) answerText(request, response, leg, 500, '');
      else response.destroy();
      leg.flags = `ERROR ${error instanceof Error ? error.message : 'unknown'}`;
    } finally {
      leg.ms = Math.round(performance.now() - startedMs);
      legs.close(leg);
    }
  };
  const publicServer = createServer((request, response) => void serve('public', request, response));
  const internalServer = createServer(
    (request, response) => void serve('internal', request, response),
  );
  const adminServer = createServer((request, response) =>
    serveAdmin({ config, table, legs }, request, response),
  );
  const servers = [publicServer, internalServer, adminServer];
  for (const server of servers) {
    server.keepAliveTimeout = keepAliveMs;
    server.requestTimeout = 0;
  }
  await listen(servers, publicServer, config.publicPort, config.host);
  await listen(servers, internalServer, config.internalPort, config.host);
  await listen(servers, adminServer, config.adminPort, config.host);
  const stopChecks = startHealthChecks(table, agent, config.healthIntervalMs);
  return {
    publicUrl: urlOf(publicServer, config.host),
    internalUrl: urlOf(internalServer, config.host),
    adminUrl: urlOf(adminServer, config.host),
    legs: (requestId) => legs.list(requestId),
    close: async () => {
      stopChecks();
      await Promise.all(servers.map(stop));
      await agent.destroy();
    },
  };
}

const urlOf = (server: Server, host: string): string =>
  `http://${host}:${(server.address() as AddressInfo).port}`;

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
