import { type AsyncHost, type QueuedRequest, type RequestObserver } from '@llm-d/pipeline';
import { buildStep, MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { asyncBroker } from './async-broker.ts';

const ofClient = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const ofSpan = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01';

/** Enqueues a request and gives what reached the queue. */
async function queued(observers: readonly RequestObserver[]): Promise<QueuedRequest | undefined> {
  let given: QueuedRequest | undefined;
  const unused = (): never => {
    throw new Error('enqueue asks for nothing else');
  };
  const asyncHost: AsyncHost = {
    openQueue: () => ({
      submit(request) {
        given = request;
        return Promise.resolve({ kind: 'new', tenant: 'default', id: request.id, generation: 'g' });
      },
      ...{ fetch: unused, confirmFetch: unused, wait: unused, cancel: unused },
      acquireQuota: unused,
    }),
    serveRequests() {},
  };
  const step = buildStep(asyncBroker, { redis_url: 'redis://127.0.0.1' }, { asyncHost });
  const rawHeaders = ['x-llm-d-async-mode', 'enqueue', 'traceparent', ofClient];
  const ctx = requestContext({ sink: new MemorySink(), observers, rawHeaders });
  ctx.begin({ name: 'async-broker', kind: 'step' });
  await step(ctx);
  return given;
}

describe('the trace of a queued request (1.2)', () => {
  it("is the client's where requests are not traced here", async () => {
    expect((await queued([]))?.traceparent).toBe(ofClient);
  });

  it('goes on below the span of the step where they are', async () => {
    const tracing = { started() {}, finished() {}, legHeaders: () => ['traceparent', ofSpan] };
    expect((await queued([tracing]))?.traceparent).toBe(ofSpan);
  });
});
