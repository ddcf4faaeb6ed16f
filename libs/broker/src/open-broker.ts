import { Admission } from './admission.ts';
import { type Broker, type LaneBacklog } from './broker.ts';
import { Connections } from './connections.ts';
import { type Core, recordScript } from './core.ts';
import { dispatchCalls } from './dispatch-calls.ts';
import { Guard } from './guard.ts';
import { Health } from './health.ts';
import { laneOpenKey, lanesKey } from './keys.ts';
import { LaneQueues } from './lane-queues.ts';
import { Messages } from './messages.ts';
import { OpenSets } from './open-sets.ts';
import { type BrokerOptions } from './options.ts';
import { Quota } from './quota.ts';
import { deleteRecord, fetchRecord } from './retrieval-calls.ts';
import { settingsOf } from './settings.ts';
import { RecordSweeper } from './sweeper.ts';
import { TicketWorker } from './ticket-worker.ts';
import { Waits } from './waits.ts';

/** Opens the connections in the background. Throws BrokerInputError for a configuration that cannot work. */
export function openBroker(options: BrokerOptions): Broker {
  const settings = settingsOf(options);
  const observer = options.observer ?? {};
  const onError = (error: Error): void => observer.onError?.(error);
  const connections = new Connections(options.redis, onError);
  const guard = new Guard(connections, observer);
  const queues = new LaneQueues(connections, onError);
  const health = new Health(connections, settings);
  const serverNowMs = (): number => health.serverNowMs();
  const openSets = new OpenSets(connections.records);
  const core: Core = { settings, connections, guard, queues, openSets, observer, serverNowMs };
  const messages = new Messages(connections);
  const waits = new Waits(core, messages);
  const quota = new Quota({ connections, guard, settings, onError });
  const dispatch = dispatchCalls(core, messages, quota);
  const admission = new Admission(core, {
    memoryRatio: () => health.memoryRatio,
    heldWaits: () => waits.held,
  });

  async function lanesInUse(): Promise<string[]> {
    const configured = [...settings.lanes.keys()];
    const ever = await connections.records.smembers(lanesKey);
    const left = ever.filter((lane) => !settings.lanes.has(lane)).sort();
    const counts = await Promise.all(
      left.map((lane) => connections.records.zcard(laneOpenKey(lane))),
    );
    return [...configured, ...left.filter((_, index) => (counts[index] ?? 0) > 0)];
  }

  async function backlog(lane: string): Promise<LaneBacklog> {
    const [counts, open] = await Promise.all([
      queues.queue(lane).getJobCounts('wait', 'prioritized', 'active', 'delayed'),
      connections.records.zcard(laneOpenKey(lane)),
    ]);
    const count = (state: string): number => counts[state] ?? 0;
    return {
      waiting: count('wait') + count('prioritized'),
      active: count('active'),
      delayed: count('delayed'),
      open,
    };
  }

  async function close(): Promise<void> {
    waits.close();
    quota.close();
    health.close();
    messages.close();
    await queues.close();
    connections.close();
  }

  return {
    submit: (submission) => admission.submit(submission),
    fetch: (name) => guard.run('fetch', () => fetchRecord(core, name)),
    confirmFetch: async (ref) => {
      const args = [ref.generation, 'fetched', settings.fetchGraceMs];
      await guard.run('touch', () => recordScript(core, 'touch', ref, args));
    },
    wait: (ref, waitOptions) => waits.wait(ref, waitOptions),
    cancel: (name) => guard.run('cancel', () => deleteRecord(core, name)),
    dispatch,
    openLaneWorker: async (workerOptions, signal) => {
      await health.untilConnected(signal);
      return new TicketWorker(core, dispatch, workerOptions);
    },
    startSweeper: () => new RecordSweeper(core, lanesInUse),
    lanesInUse: () => guard.run('lanes', lanesInUse),
    backlog: (lane) => guard.run('backlog', () => backlog(lane)),
    get heldWaits() {
      return waits.held;
    },
    health: () => health.state(),
    untilReady: (signal) => health.untilReady(signal),
    releaseWaits: () => waits.release(),
    close,
    [Symbol.asyncDispose]: close,
  };
}
