import { type Broker, type LaneWorker, openBroker } from '@llm-d/broker';
import { ServiceProcess, until } from '@llm-d/soak';
import { scriptedServer, startRedis, startTcpRelay, type TcpRelay } from '@llm-d/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from './ask.ts';

// Failure table 5, F1 to F3: a coordinator dies at a point of an admission that what it says to Redis shows.
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync());
const lane = 'request-sortedset';
let relay: TcpRelay;
let coordinator: ServiceProcess;
let broker: Broker;
let worker: LaneWorker;
let runs: string[] = [];

beforeAll(async () => {
  const redis = cleanup.use(await startRedis(['--appendonly', 'yes']));
  const gateway = await scriptedServer({ json: {} });
  cleanup.defer(() => gateway.close());
  relay = cleanup.use(await startTcpRelay(redis.url));
  coordinator = cleanup.use(
    await ServiceProcess.start('coordinator', (port) => ({
      server: { listen_addr: `127.0.0.1:${port}`, metrics_port: 0 },
      gateway: { address: gateway.url },
      pipeline: {
        kv_connector: 'kv-none',
        steps: [
          { type: 'async-broker', params: { redis_url: relay.url, default_queue: lane } },
          { type: 'decode' },
        ],
      },
    })),
  );
  broker = cleanup.use(openBroker({ redis: { url: redis.url }, lanes: [{ name: lane }] }));
  await broker.untilReady(AbortSignal.timeout(10_000));
  const handle = async (ticket: Parameters<LaneWorker['abort']>[0]) => {
    const begun = await broker.dispatch.begin(ticket, 'token');
    if (begun.kind === 'run') {
      runs.push(ticket.id);
      const outcome = { kind: 'response', status: 200, body: Buffer.from('{}') } as const;
      await broker.dispatch.finish(ticket, 'token', outcome);
    }
    return { kind: 'done' } as const;
  };
  worker = await broker.openLaneWorker({ lane, handle }, AbortSignal.timeout(10_000));
  cleanup.defer(() => worker.close());
  await queueIsUp();
}, 30_000);

const queueIsUp = (): Promise<true> =>
  until('the queue is up', async () => {
    const { body } = await ask(coordinator.url, { method: 'GET', path: '/readyz?verbose' }).catch(
      () => ({ body: Buffer.alloc(0) }),
    );
    return body.includes('"queue":"up"') ? true : undefined;
  });
const enqueue = (id: string) =>
  ask(coordinator.url, {
    ...{ path: '/v1/completions', body: { model: 'm', prompt: 'hi' }, requestId: id },
    headers: { 'x-llm-d-async-mode': 'enqueue' },
  });
const byId = (id: string) => ask(coordinator.url, { method: 'GET', path: `/v1/requests/${id}` });

/** Sends a request to the coordinator, which dies when such bytes are on their way. */
async function dieAt(
  id: string,
  isThePoint: (text: string, from: 'client' | 'server') => boolean,
): Promise<void> {
  worker.pause();
  runs = [];
  let isDead = false;
  relay.watch((bytes, from) => {
    if (!isDead && isThePoint(bytes.toString('latin1'), from)) {
      isDead = true;
      coordinator.signal('SIGKILL');
    }
    return isDead;
  });
  await expect(enqueue(id)).rejects.toThrow();
  await coordinator.kill();
  relay.watch(() => false);
}

async function startAgain(): Promise<void> {
  coordinator.launch();
  await queueIsUp();
}

const result = (id: string): Promise<number> =>
  until('the result', async () => {
    const { status } = await byId(id);
    return status === 202 ? undefined : status;
  });

describe('a coordinator that dies in an admission', () => {
  it('F1 before the record is written: nothing is there, and a repetition by id runs it', async () => {
    await dieAt('f1', (text, from) => from === 'client' && text.includes('~f1}:rec'));
    await startAgain();
    expect((await byId('f1')).status).toBe(404);
    expect((await enqueue('f1')).status).toBe(202);
    worker.resume();
    expect(await result('f1')).toBe(200);
    expect(runs).toEqual(['f1']);
  });

  it('F2 after the record, before the ticket: a repetition by id finds the request and adds the ticket', async () => {
    await dieAt('f2', (text, from) => from === 'server' && text.includes('NEW'));
    await startAgain();
    expect((await byId('f2')).status).toBe(202);
    expect((await enqueue('f2')).status).toBe(202);
    worker.resume();
    expect(await result('f2')).toBe(200);
    expect(runs).toEqual(['f2']);
  });

  it('F3 after the ticket, before the 202: the request runs, and is fetched by its id', async () => {
    await dieAt('f3', (text, from) => from === 'server' && /r~[\w-]+~f3~/.test(text));
    worker.resume();
    // What a GET at any other coordinator finds.
    const name = { tenant: 'default', id: 'f3' };
    await until('the result', async () => {
      const { kind } = await broker.fetch(name);
      return kind === 'ready' ? true : undefined;
    });
    expect(runs).toEqual(['f3']);
  });
});
