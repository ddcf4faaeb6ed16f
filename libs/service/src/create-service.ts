import 'reflect-metadata';
import { type IncomingMessage } from 'node:http';
import { type Socket } from 'node:net';
import { type DynamicModule, type InjectionToken, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { requestIdHeader } from '@llm-d/gateway';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { answerClientError } from './client-error.ts';
import { type EdgeObserver } from './edge-observer.ts';
import { ErrorFilter } from './error.filter.ts';
import { type DependencyCheck, dependencyChecks, HealthController } from './health.controller.ts';
import { Lifecycle } from './lifecycle.ts';
import { NestLogger } from './nest-logger.ts';
import { readBody } from './read-body.ts';
import { RequestError } from './request-error.ts';
import { chooseRequestId } from './request-id.ts';
import { Routes } from './routes.ts';
import { serveUnknownPath, type UnknownPathHandler } from './unknown-path.ts';
import { type PendingBodies } from './upload.ts';

/** A Nest application on Fastify. */
export type Service = NestFastifyApplication;

/** What a service is made of. */
export interface ServiceOptions {
  /** Root module of the app. It may inject `Lifecycle`. */
  readonly module: Type | DynamicModule;
  readonly logger: Logger;
  /** A longer request body is refused with 413. */
  readonly bodyLimitBytes: number;
  /** Longest time for a request to arrive whole, and for an idle connection to stay; 0 = no limit. */
  readonly readTimeoutMs?: number;
  /** Hears of every request. */
  readonly observer?: EdgeObserver;
  /** Provider of the module that serves paths without a route; absent, they are 404. */
  readonly unknownPaths?: InjectionToken<UnknownPathHandler> | undefined;
  /** What `/readyz?verbose` shows, by name. */
  readonly dependencies?: Readonly<Record<string, DependencyCheck>>;
}

/**
 * Nest on Fastify for bytes: `request.body` is an unpacked Buffer whatever the content type,
 * `request.id` a valid request id that every answer carries, and every refusal an OpenAI error object. Serves
 * `/healthz`, `/health` and `/readyz`. Does not listen; `runService` and `startService` do.
 */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { logger, bodyLimitBytes, readTimeoutMs = 30_000, observer } = options;
  const pendingBodies: PendingBodies = new WeakMap();
  // A refused upload is longer than the limit: with no more patience than that its sender would see a reset.
  const filter = new ErrorFilter(logger, 2 * bodyLimitBytes, pendingBodies, observer);

  const adapter = new FastifyAdapter({
    skipMiddie: true,
    multipart: false,
    logger: false,
    requestTimeout: readTimeoutMs,
    keepAliveTimeout: readTimeoutMs,
    http: {
      requestTimeout: readTimeoutMs,
      headersTimeout: readTimeoutMs,
      connectionsCheckingInterval: checkIntervalMs(readTimeoutMs),
    },
    routerOptions: { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true },
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

  // Fastify's own body parsing would choose by content type and cost an AsyncResource per request.
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    fastify.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  }
  fastify.addHook('onRequest', (request, reply, done) => {
    void reply.header(requestIdHeader, request.id);
    if (!request.is404) {
      observer?.arrived(request);
      done();
      return;
    }
    const path = request.url.split('?', 1)[0] ?? '';
    const refusal = routes.refusal(request.method, path);
    if (refusal.status === 404 && unknownPaths) {
      serveUnknownPath(unknownPaths, request, reply, { filter, bodyLimitBytes, pendingBodies });
    } else filter.answer(refusal, request, reply);
  });
  fastify.addHook('preHandler', (request, reply, done) => {
    readBody(request.raw, reply.raw, bodyLimitBytes, pendingBodies).then(
      (body) => {
        request.body = body;
        done();
      },
      (error: unknown) => {
        filter.answer(error, request, reply);
      },
    );
  });
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
      providers: [Lifecycle, { provide: dependencyChecks, useValue: options.dependencies ?? {} }],
      exports: [Lifecycle],
    },
    adapter,
    { logger: new NestLogger(logger), abortOnError: false, bodyParser: false },
  );
  app.useGlobalFilters(filter);
  if (options.unknownPaths) unknownPaths = app.get(options.unknownPaths, { strict: false });
  return app;
}

/** How often Node looks for requests that are late: a tenth of the limit, at most every second. */
function checkIntervalMs(readTimeoutMs: number): number {
  return readTimeoutMs === 0 ? 1_000 : Math.min(Math.max(readTimeoutMs / 10, 50), 1_000);
}
