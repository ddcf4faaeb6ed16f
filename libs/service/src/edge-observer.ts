import { type CoordinatorError } from '@llm-d/pipeline';
import { type FastifyRequest } from 'fastify';

/** A request that the service answered itself, with an error. Sizes in bytes of bodies. */
export interface Refusal {
  readonly error: CoordinatorError;
  /** Of what was read of the request's body. */
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Since the request arrived. */
  readonly durationMs: number;
}

/** Hears of requests at the edge of a service, for metrics. Must not throw. */
export interface EdgeObserver {
  /** A request came whose path and method have a route; nothing else has looked at it yet. */
  arrived(request: FastifyRequest): void;
  /** A request, with a route or without, ended in an error that its handler did not answer. */
  refused(request: FastifyRequest, refusal: Refusal): void;
}
