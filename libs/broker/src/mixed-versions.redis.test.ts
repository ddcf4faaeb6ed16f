import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { type Job, Queue, Worker } from 'bullmq-older';
import { type Broker } from './broker.ts';
import { jobIdOf, lanePrefix, parseJobId } from './keys.ts';
import { type Ticket } from './names.ts';
import { accept, answer, type BrokerBench, brokerBench, soon } from './testing.ts';

/** An upgrade has processes of both versions at once: what either of them queues or runs, the other has to understand. */
let bench: BrokerBench;
let broker: Broker;
beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  broker = await bench.open();
});

const lane = 'a';
const count = 60;
const older = () => ({
  prefix: lanePrefix(lane),
  connection: { url: bench.server.url, maxRetriesPerRequest: null },
});

it('F33 requests run once each where workers of an older BullMQ take tickets beside ours', async () => {
  const ran = { older: [] as string[], ours: [] as string[] };
  const { promise, resolve } = Promise.withResolvers<void>();
  /** Each has taken one. */
  const both = Promise.withResolvers<void>();
  let stored = 0;
  const run = async (by: keyof typeof ran, ticket: Ticket | undefined): Promise<void> => {
    if (!ticket) throw new Error('not a ticket of ours');
    const begun = await broker.dispatch.begin(ticket, by);
    expect(begun.kind).toBe('run');
    ran[by].push(ticket.id);
    if (ran.older.length > 0 && ran.ours.length > 0) both.resolve();
    await both.promise;
    expect(await broker.dispatch.finish(ticket, by, answer('{}'))).toBe('stored');
    if ((stored += 1) === count) resolve();
  };
  const olderQueue = new Queue(lane, { ...older(), streams: { events: { maxLen: 1_000 } } });
  const accepted = await Promise.all(
    Array.from({ length: count }, (_, index) => accept(broker, { id: `request-${index}` })),
  );
  // The older process admits and repairs too: it queues the same ticket again, which must not make it two.
  await Promise.all(
    accepted.slice(0, 20).map(({ generation }, index) =>
      olderQueue.add(
        'request',
        {},
        {
          jobId: jobIdOf({ tenant: 'team-a', id: `request-${index}`, generation }),
          ...{ attempts: 5, backoff: { type: 'custom' }, priority: 60 },
        },
      ),
    ),
  );
  const olderWorker = new Worker(lane, (job: Job) => run('older', parseJobId(job.id ?? '', lane)), {
    ...older(),
    concurrency: 4,
    removeOnComplete: { count: 0 },
  });
  const ourWorker = await broker.openLaneWorker(
    {
      ...{ lane, concurrency: 4 },
      handle: async (ticket) => {
        await run('ours', ticket);
        return { kind: 'done' };
      },
    },
    soon(),
  );
  await promise;
  await Promise.all([olderWorker.close(), ourWorker.close()]);
  const ids = [...ran.older, ...ran.ours].sort();
  expect(ids).toEqual(Array.from({ length: count }, (_, index) => `request-${index}`).sort());
  // Nothing is left of any ticket.
  expect(await olderQueue.getJobCountByTypes('wait', 'prioritized', 'active', 'delayed')).toBe(0);
  await olderQueue.close();
});

it('F33 a ticket that an older BullMQ queued is run by ours, and the other way round', async () => {
  const olderQueue = new Queue(lane, { ...older(), streams: { events: { maxLen: 1_000 } } });
  const { generation } = await accept(broker, { id: 'moved' });
  const name = { tenant: 'team-a', id: 'moved', generation };
  const ticket = await olderQueue.getJob(jobIdOf(name));
  expect(ticket?.opts.priority).toBeGreaterThan(0);
  await ticket?.remove();
  await olderQueue.add(
    'request',
    {},
    {
      ...{ jobId: jobIdOf(name), attempts: 5, backoff: { type: 'custom' }, priority: 60 },
    },
  );
  const { promise, resolve } = Promise.withResolvers<Ticket>();
  const ourWorker = await broker.openLaneWorker(
    {
      lane,
      handle: (taken) => {
        resolve(taken);
        return Promise.resolve({ kind: 'done' });
      },
    },
    soon(),
  );
  expect(await promise).toEqual({ ...name, lane });
  await ourWorker.close();
  await olderQueue.close();
});
