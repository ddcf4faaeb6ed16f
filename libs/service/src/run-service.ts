import { type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyInstance } from 'fastify';
import { type Service } from './create-service.ts';
import { Lifecycle } from './lifecycle.ts';
import { type ListenAddress } from './listen-address.ts';
import { OpenResponses } from './open-responses.ts';

/** How a service listens and stops. */
export interface RunOptions extends ListenAddress {
  readonly logger: Logger;
  /** How long requests in flight may go on after a signal. */
  readonly shutdownTimeoutMs: number;
  /** How long new requests are still taken after a signal, until load balancers have noticed. */
  readonly drainDelayMs?: number;
}

/** A service that listens. */
export interface RunningService {
  /** `http://host:port` (or `https:`) with the port that was really bound. */
  readonly url: string;
  /**
   * Drains and closes. True when every request ended by itself, or, past the limit, had its client told; false when
   * connections were left that had to be destroyed.
   */
  stop(): Promise<boolean>;
}

/** How often connections that fell idle during the drain are closed. */
const idleSweepMs = 50;
/** What requests get to write their last bytes after they have been cut. */
const cutGraceMs = 2_000;

/** Listens. Rejects when the address cannot be bound. */
export async function startService(app: Service, options: RunOptions): Promise<RunningService> {
  await app.init();
  const fastify = app.getHttpAdapter().getInstance();
  await fastify.ready();
  const { server } = fastify;
  const openResponses = new OpenResponses(server);
  // Node, unlike Fastify, takes "every interface" on machines with and without IPv6.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: options.port, host: options.host }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const { address, family, port } = server.address() as AddressInfo;
  const scheme = 'setSecureContext' in server ? 'https' : 'http';
  const url = `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;

  let stopping: Promise<boolean> | undefined;
  return { url, stop: () => (stopping ??= drain(app, server, openResponses, options)) };
}

/**
 * Listens until SIGINT or SIGTERM, then drains. Resolves to the exit code: 0 when every client got an end to its
 * answer, 1 when the address cannot be bound, clients did not take that end, or a second signal came.
 */
export async function runService(app: Service, options: RunOptions): Promise<number> {
  const { logger } = options;
  let service: RunningService;
  try {
    service = await startService(app, options);
  } catch (error) {
    const reason =
      (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? 'the port is in use' : String(error);
    logger.fatal(`cannot listen on ${options.host ?? ''}:${options.port}: ${reason}`);
    await app.close();
    return 1;
  }
  logger.info({ address: service.url }, 'listening');

  return new Promise((resolve) => {
    stopOnSignal(service, options, resolve);
  });
}

/** Drains at the first signal and gives up at the second. */
function stopOnSignal(
  service: RunningService,
  { logger, shutdownTimeoutMs }: RunOptions,
  resolve: (exitCode: number) => void,
): void {
  let isStopping = false;
  const finish = (exitCode: number): void => {
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    resolve(exitCode);
  };
  const onSignal = (signal: string): void => {
    if (isStopping) {
      logger.warn(`${signal} again, stopping at once`);
      finish(1);
      return;
    }
    isStopping = true;
    logger.info(`${signal}, draining for up to ${shutdownTimeoutMs} ms`);
    service.stop().then(
      (isDrained) => {
        if (isDrained) logger.info('stopped');
        else logger.error('clients did not take the end of their answers');
        finish(isDrained ? 0 : 1);
      },
      (error: unknown) => {
        logger.fatal({ err: error }, 'shutdown failed');
        finish(1);
      },
    );
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
}

async function drain(
  app: Service,
  server: FastifyInstance['server'],
  openResponses: OpenResponses,
  options: RunOptions,
): Promise<boolean> {
  const lifecycle = app.get(Lifecycle);
  lifecycle.startDraining();
  openResponses.lastOfConnections();
  if (options.drainDelayMs) await sleep(options.drainDelayMs);

  const closed = new Promise<true>((resolve) => {
    server.close(() => {
      resolve(true);
    });
  });
  const sweep = setInterval(() => {
    server.closeIdleConnections();
  }, idleSweepMs);
  const limit = new AbortController();
  const finished = closed.then(async (isClosed) => {
    await lifecycle.idle();
    return isClosed;
  });
  const endWithin = (milliseconds: number): Promise<boolean> =>
    Promise.race([finished, sleep(milliseconds, false, { signal: limit.signal })]);
  let hasEnded = await endWithin(options.shutdownTimeoutMs);
  if (!hasEnded) {
    options.logger.warn('requests have outlived the shutdown timeout and are cut');
    lifecycle.cutRequests();
    hasEnded = await endWithin(cutGraceMs);
    server.closeAllConnections();
    await closed;
  }
  limit.abort();
  clearInterval(sweep);
  await app.close();
  return hasEnded;
}
