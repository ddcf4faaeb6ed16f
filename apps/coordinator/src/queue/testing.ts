import { once } from 'node:events';
import { type ClientRequest, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Broker, type DispatchRequest, openBroker, type Outcome } from '@llm-d/broker';
import {
  type RedisClusterServers,
  type RedisServer,
  startRedis,
  startRedisCluster,
} from '@llm-d/testing';
import { type ClientAnswer, TestCoordinator } from '../testing.ts';

const lane = 'request-sortedset';
export const completion = { model: 'm', prompt: 'hi' };

/** A worker's answer as it is stored. */
export const response = (status: number, text = '{"a" : 1.0}'): Outcome => ({
  kind: 'response',
  status,
  contentType: 'application/json',
  body: Buffer.from(text),
});

type Sections = NonNullable<Parameters<TestCoordinator['start']>[0]>;
type QueueServers = RedisServer | RedisClusterServers;
const durable = ['--appendonly', 'yes', '--appendfsync', 'no'];

/** A coordinator with a queue in a Redis of its own, and what a worker does in the hands of the test. */
export class QueueRig<Servers extends QueueServers = RedisServer> implements AsyncDisposable {
  readonly redis: Servers;
  readonly coordinator: TestCoordinator;
  readonly broker: Broker;
  #count = 0;

  private constructor(redis: Servers, coordinator: TestCoordinator, broker: Broker) {
    this.redis = redis;
    this.coordinator = coordinator;
    this.broker = broker;
  }

  /** `params` are those of the step. */
  static async open(
    params: Record<string, unknown> = {},
    sections: Sections = {},
  ): Promise<QueueRig> {
    return this.#on(await startRedis(durable), params, sections);
  }

  /** With a cluster of three nodes. */
  static async openOnCluster(): Promise<QueueRig<RedisClusterServers>> {
    return this.#on(await startRedisCluster(durable), {}, {});
  }

  static async #on<Servers extends QueueServers>(
    redis: Servers,
    params: Record<string, unknown>,
    sections: Sections,
  ): Promise<QueueRig<Servers>> {
    const coordinator = await TestCoordinator.open();
    const url = 'urls' in redis ? redis.urls.join(',') : redis.url;
    const steps = [
      { type: 'async-broker', params: { redis_url: url, ...params } },
      { type: 'decode' },
    ];
    await coordinator.start({ ...sections, pipeline: { steps, ...sections.pipeline } });
    const broker = openBroker({
      redis: 'urls' in redis ? { clusterUrls: redis.urls } : { url },
      lanes: [{ name: lane }],
    });
    await broker.untilReady(AbortSignal.timeout(5_000));
    const rig = new QueueRig(redis, coordinator, broker);
    await rig.reachable();
    return rig;
  }

  /** An id that no other test has. */
  newId(): string {
    this.#count += 1;
    return `job-${this.#count}`;
  }

  /** Waits until the coordinator can use the queue. */
  async reachable(): Promise<void> {
    await this.#until('"queue":"up"');
  }

  /** Waits until the coordinator has noticed that it cannot use the queue. */
  async unreachable(): Promise<void> {
    await this.#until('"queue":"down"');
  }

  async #until(state: string): Promise<void> {
    for (;;) {
      const { text } = await this.coordinator.ask(undefined, {
        ...{ method: 'GET', path: '/readyz?verbose' },
      });
      if (text.includes(state)) return;
      await sleep(10);
    }
  }

  /** POSTs a request for the queue. */
  post(
    mode: string,
    options: { id?: string; headers?: Record<string, string>; body?: unknown; path?: string } = {},
  ): Promise<ClientAnswer> {
    const { id, headers = {}, body = completion, path = '/v1/completions' } = options;
    const own = { 'x-llm-d-async-mode': mode, ...(id && { 'x-request-id': id }) };
    return this.coordinator.ask(body, { path, headers: { ...own, ...headers } });
  }

  /** Begins a wait that the test can leave. */
  async hold(id: string): Promise<ClientRequest> {
    const call = httpRequest(`${this.coordinator.url}/v1/completions`, {
      method: 'POST',
      headers: { 'x-llm-d-async-mode': 'wait', 'x-request-id': id },
      agent: false,
    });
    // The test leaves, which is an error to Node's client.
    call.on('error', () => {});
    call.end(JSON.stringify(completion));
    await once(call, 'finish');
    return call;
  }

  get(id: string, headers: Record<string, string> = {}): Promise<ClientAnswer> {
    return this.coordinator.ask(undefined, { method: 'GET', path: `/v1/requests/${id}`, headers });
  }

  delete(id: string, headers: Record<string, string> = {}): Promise<ClientAnswer> {
    return this.coordinator.ask(undefined, {
      ...{ method: 'DELETE', path: `/v1/requests/${id}`, headers },
    });
  }

  /** Starts a queued request as a worker does, once it is there. */
  async begin(id: string, tenant = 'default'): Promise<DispatchRequest> {
    for (;;) {
      const found = await this.broker.fetch({ tenant, id });
      if (found.kind === 'pending') {
        const begun = await this.broker.dispatch.begin(found, 'token');
        if (begun.kind === 'run') return begun.request;
      }
      await sleep(5);
    }
  }

  /** Runs a queued request to its end as a worker does, once it is there. */
  async finish(id: string, outcome: Outcome, tenant = 'default'): Promise<void> {
    await this.broker.dispatch.finish(await this.begin(id, tenant), 'token', outcome);
  }

  /** Queues a request and ends it. */
  async stored(outcome: Outcome, tenant = 'default'): Promise<string> {
    const id = this.newId();
    await this.post('enqueue', { id, headers: { 'x-llm-d-tenant': tenant } });
    await this.finish(id, outcome, tenant);
    return id;
  }

  /** Tickets in the queue. */
  async waiting(): Promise<number> {
    return (await this.broker.backlog(lane)).waiting;
  }

  /** Answers that this process holds. */
  async heldWaits(): Promise<number> {
    return this.sample('llm_d_async_broker_held_waits');
  }

  async untilHeld(count: number): Promise<void> {
    while ((await this.heldWaits()) !== count) await sleep(5);
  }

  /** A value of the metrics; 0 when it is not there. */
  async sample(name: string): Promise<number> {
    const text = await this.coordinator.metrics();
    const line = text.split('\n').find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1) ?? 0);
  }

  /** Requests of a model that failed with a code. */
  errors(code: string, model = 'm'): Promise<number> {
    const labels = `{model_name="${model}",error_code="${code}"}`;
    return this.sample(`llm_d_coordinator_request_error_total${labels}`);
  }

  async close(): Promise<void> {
    await this.coordinator.close();
    await this.broker.close();
    await this.redis.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The error object of an answer. */
export function errorOf({ text }: ClientAnswer): Record<string, unknown> {
  return (JSON.parse(text) as { error: Record<string, unknown> }).error;
}
