import { type Broker, BrokerUnavailableError } from '@llm-d/broker';
import { QueueUnavailableError, type RequestQueue } from '@llm-d/pipeline';
import { type AsyncMetrics } from '@llm-d/telemetry';

/**
 * A broker as the steps use it: its faults in their terms, and what they do with it counted. `problemOf` says what is
 * wrong with a server to which no request may be entrusted; undefined when nothing is. `onFault` hears of every fault.
 */
export function brokerQueue(
  broker: Broker,
  metrics: AsyncMetrics,
  problemOf: () => Error | undefined,
  onFault: (error: Error) => void,
): RequestQueue {
  const asked = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (cause) {
      if (!(cause instanceof BrokerUnavailableError)) throw cause;
      onFault(cause);
      const { id, retryAfterSeconds } = cause;
      throw new QueueUnavailableError({ cause, id, retryAfterSeconds });
    }
  };
  return {
    async submit(request) {
      metrics.submitted(request.body.length);
      try {
        const cause = problemOf();
        if (cause) throw new QueueUnavailableError({ cause, id: request.id });
        const submitted = await asked(broker.submit(request));
        if (submitted.kind === 'refused') metrics.rejected(submitted.reason);
        return submitted;
      } catch (error) {
        if (error instanceof QueueUnavailableError) metrics.rejected('redis');
        throw error;
      }
    },
    fetch: (name) => asked(broker.fetch(name)),
    confirmFetch: (ref) => asked(broker.confirmFetch(ref)),
    async wait(ref, options) {
      const startedAt = performance.now();
      try {
        return await asked(broker.wait(ref, { ...options, isCounted: true }));
      } finally {
        metrics.held((performance.now() - startedAt) / 1_000);
      }
    },
    async cancel(name) {
      await asked(broker.cancel(name));
    },
    acquireQuota: (tenant) => broker.dispatch.acquireQuota(tenant),
  };
}
