import { apiOfPath } from '@llm-d/gateway';
import { type EdgeObserver } from '@llm-d/service';
import { type CoordinatorMetrics } from '@llm-d/telemetry';
import { type FastifyRequest } from 'fastify';

/** Counts inference requests from their arrival, and those that never reach the pipeline. */
export function edgeMetrics(metrics: CoordinatorMetrics): EdgeObserver {
  return {
    arrived: (request) => {
      if (isInference(request)) metrics.requestArrived();
    },
    refused: (request, { error, ...sizes }) => {
      if (isInference(request)) metrics.requestRefused(error, sizes);
    },
  };
}

const isInference = ({ routeOptions }: FastifyRequest): boolean =>
  apiOfPath(routeOptions.url ?? '') !== undefined;
