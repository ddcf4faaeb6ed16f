import 'reflect-metadata';
import { type IncomingMessage } from 'node:http';
import { type Server as HttpsServer } from 'node:https';
import { type Socket } from 'node:net';
import { type DynamicModule, type InjectionToken, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { requestIdHeader } from '@llm-d/gateway';
import { ClientGoneError } from '@llm-d/pipeline';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { type Admission, Ticket } from './admission.ts';
import { answerClientError, plainHttp } from './client-error.ts';
import { type EdgeObserver } from './edge-observer.ts';
import { ErrorFilter, type ErrorWriter, type LogFields } from './error.filter.ts';
import {
  type DependencyCheck,
  dependencyChecks,
  HealthController,
  probePaths,
  type Readiness,
  readinessCheck,
} from './health.controller.ts';
import { Lifecycle } from './lifecycle.ts';
import { NestLogger } from './nest-logger.ts';
import { readBody } from './read-body.ts';
import { refusePlainHttp } from './refuse-plain-http.ts';
import { RequestError } from './request-error.ts';
import { chooseRequestId } from './request-id.ts';
import { Routes } from './routes.ts';
import { type ServerTls } from './server-tls.ts';
import { serveUnknownPath, type UnknownPathHandler } from './unknown-path.ts';
import { type PendingBodies } from './upload.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request has of the service's limits; undefined without limits, and for probes. */
    ticket: Ticket | undefined;
  }
}

/** A Nest application on Fastify. */
export type Service = NestFastifyApplication;

/** What a service is made of. */
export interface ServiceOptions {
  /** Root module of the app. It may inject `Lifecycle`. */
  readonly module: Type | DynamicModule;
  readonly logger: Logger;
  /** A longer request body is refused with 413. */
  readonly bodyLimitBytes: number;
  /** Longest time for a request to arrive whole; 0 = no limit. */
  readonly readTimeoutMs?: number;
  /** Longest time for an idle connection to stay, at least `readTimeoutMs`; 0 = no limit. */
  readonly idleTimeoutMs?: number;
  /** Speaks TLS; plain HTTP when absent. */
  readonly tls?: ServerTls | undefined;
  /** Limits what is served at a time, probes excepted. */
  readonly admission?: Admission | undefined;
  /** Hears of every request. */
  readonly observer?: EdgeObserver;
  /** Provider of the module that serves paths without a route; absent, they are 404. */
  readonly unknownPaths?: InjectionToken<UnknownPathHandler> | undefined;
  /** What `/readyz?verbose` shows, by name. */
  readonly dependencies?: Readonly<Record<string, DependencyCheck>>;
  readonly logFields?: LogFields | undefined;
  /** Turns a request away before it takes part in the limits; probes and open paths are not asked about. */
  readonly authorize?: (request: FastifyRequest) => RequestError | undefined;
  /** Paths that are served as probes are: without authorization and outside of the limits. */
  readonly openPaths?: readonly string[];
  /** Adds to what `/readyz` says. */
  readonly readiness?: () => Readiness;
  /** Writes refusals in another shape than OpenAI's. */
  readonly errorResponse?: ErrorWriter;
}

/**
 * Nest on Fastify for bytes: `request.body` is an unpacked Buffer whatever the content type,
 * `request.id` a valid request id that every answer carries, and every refusal an OpenAI error object. Serves
 * `/healthz`, `/health` and `/readyz`. Does not listen; `runService` and `startService` do.
 */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { logger, bodyLimitBytes, readTimeoutMs = 30_000, tls, admission, observer } = options;
  const { idleTimeoutMs = readTimeoutMs } = options;
  const pendingBodies: PendingBodies = new WeakMap();
  // A refused upload is longer than the limit: with no more patience than that its sender would see a reset.
  const { logFields } = options;
  const filter = new ErrorFilter(logger, 2 * bodyLimitBytes, pendingBodies, {
    observer,
    logFields,
    errorResponse: options.errorResponse,
  });
  const openPaths = new Set([...probePaths, ...(options.openPaths ?? [])]);

  const http = {
    requestTimeout: readTimeoutMs,
    headersTimeout: readTimeoutMs,
    connectionsCheckingInterval: checkIntervalMs(readTimeoutMs),
    // Node's own refusal has no body.
    requireHostHeader: false,
  };
  const adapter = new FastifyAdapter({
    skipMiddie: true,
    multipart: false,
    logger: false,
    requestTimeout: readTimeoutMs,
    // The original's listener keeps idle connections for the read timeout.
    keepAliveTimeout: idleTimeoutMs === 0 ? 0 : Math.max(idleTimeoutMs, readTimeoutMs),
    ...(tls ? { https: { ...http, ...tls.options, handshakeTimeout: readTimeoutMs } } : { http }),
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      // Longer parameters would not be found; Node limits the whole head.
      maxParamLength: maxHeadBytes,
    },
    genReqId: (request: IncomingMessage) =>
      chooseRequestId(request, (length) => {
        logger.info({ length }, 'x-request-id is not valid, id replaced');
      }),
    clientErrorHandler: (error: Error, socket: Socket) => {
      answerClientError(error, socket, pendingBodies);
    },
    frameworkErrors: (_error: Error, request: FastifyRequest, reply: FastifyReply) => {
      filter.answer(new RequestError(400, 'INVALID_PATH', 'the path is not valid'), request, reply);
    },
  });
  const fastify = adapter.getInstance();
  const routes = new Routes(fastify);
  let unknownPaths: UnknownPathHandler | undefined;

  fastify.decorateRequest('ticket', undefined);
  /** A client that leaves while it waits hears no decision. */
  const observeGone = (request: FastifyRequest, reply: FastifyReply): void => {
    observer?.refused(request, {
      error: new ClientGoneError(),
      requestBytes: 0,
      responseBytes: 0,
      durationMs: reply.elapsedTime,
    });
  };
  const admit = (request: FastifyRequest, reply: FastifyReply, next: () => void): void => {
    if (!admission) {
      next();
      return;
    }
    const ticket = new Ticket(admission);
    request.ticket = ticket;
    reply.raw.once('close', () => {
      if (!ticket.isRunning && !ticket.isReleased) observeGone(request, reply);
      admission.release(ticket);
    });
    admission.enter(ticket, (refused) => {
      if (refused) filter.answer(refused, request, reply);
      else next();
    });
  };
  // Fastify's own body parsing would choose by content type and cost an AsyncResource per request.
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    fastify.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  }
  fastify.addHook('onRequest', (request, reply, done) => {
    void reply.header(requestIdHeader, request.id);
    if (!request.is404) {
      if (openPaths.has(request.routeOptions.url ?? '')) {
        done();
        return;
      }
      observer?.arrived(request);
      const refused = withoutHost(request.raw) ?? options.authorize?.(request);
      if (refused) filter.answer(refused, request, reply);
      else admit(request, reply, done);
      return;
    }
    const path = request.url.split('?', 1)[0] ?? '';
    const refusal = withoutHost(request.raw) ?? routes.refusal(request.method, path);
    if (refusal.status === 404 && unknownPaths) {
      const handler = unknownPaths;
      admit(request, reply, () => {
        serveUnknownPath(handler, request, reply, { filter, bodyLimitBytes, pendingBodies });
      });
    } else filter.answer(refusal, request, reply);
  });
  fastify.addHook('preHandler', (request, reply, done) => {
    readBody(request.raw, reply.raw, bodyLimitBytes, pendingBodies, request.ticket).then(
      (body) => {
        request.body = body;
        done();
      },
      (error: unknown) => {
        filter.answer(error, request, reply);
      },
    );
  });
  if (tls) serveTls(fastify.server as HttpsServer, tls, { readTimeoutMs, pendingBodies });
  // Without a listener Node itself answers 100 before the length is looked at.
  fastify.server.on('checkContinue', (request, response) => {
    fastify.server.emit('request', request, response);
  });
  // Other expectations may be ignored (RFC 9110, 10.1.1); Node would answer an empty 417.
  fastify.server.on('checkExpectation', (request, response) => {
    fastify.server.emit('request', request, response);
  });

  const app = await NestFactory.create<NestFastifyApplication>(
    {
      module: class ServiceModule {},
      global: true,
      imports: [options.module],
      controllers: [HealthController],
      providers: [
        Lifecycle,
        { provide: dependencyChecks, useValue: options.dependencies ?? {} },
        { provide: readinessCheck, useValue: options.readiness ?? (() => ({})) },
      ],
      exports: [Lifecycle],
    },
    adapter,
    { logger: new NestLogger(logger), abortOnError: false, bodyParser: false },
  );
  app.useGlobalFilters(filter);
  if (options.unknownPaths) unknownPaths = app.get(options.unknownPaths, { strict: false });
  return app;
}

/** The refusal of a request that HTTP/1.1 does not allow. */
function withoutHost({ headers, httpVersion }: IncomingMessage): RequestError | undefined {
  if (headers.host !== undefined || httpVersion !== '1.1') return undefined;
  return new RequestError(400, 'INVALID_HTTP', 'the request has no host header');
}

/** Keeps to the certificate of the moment, and tells clients that do not speak TLS so. */
function serveTls(
  server: HttpsServer,
  tls: ServerTls,
  edge: { readonly readTimeoutMs: number; readonly pendingBodies: PendingBodies },
): void {
  server.once('close', tls.follow(server));
  refusePlainHttp(server, edge.readTimeoutMs, (socket) => {
    const error = Object.assign(new Error('no TLS handshake'), { code: plainHttp });
    answerClientError(error, socket, edge.pendingBodies);
  });
}

/** Node's limit for the head of a request. */
const maxHeadBytes = 16 * 1024;

/** How often Node looks for requests that are late: a tenth of the limit, at most every second. */
function checkIntervalMs(readTimeoutMs: number): number {
  return readTimeoutMs === 0 ? 1_000 : Math.min(Math.max(readTimeoutMs / 10, 50), 1_000);
}
