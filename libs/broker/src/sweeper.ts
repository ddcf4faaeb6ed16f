import { randomUUID } from 'node:crypto';
import { type Sweeper } from './broker.ts';
import { type Core, endOverdue, recordScript } from './core.ts';
import { jobIdOf, laneOpenKey, memberOf, parseMember, recordKeys, sweeperKey } from './keys.ts';
import { type RequestRef } from './names.ts';
import { type RepairKind } from './observer.ts';
import { runScript } from './script.ts';

const turnMs = 5_000;
const leadMs = 10_000;
const pageSize = 500;
/** One turn looks at pages until this is over, so that a long lane is seen whole in a bounded number of turns. */
const turnBudgetMs = 250;
/** Its readers had the chance to end it, with the answer of a last attempt. */
const overdueMs = 2_000;
/** An admission that is under way has not added its ticket yet. */
const youngMs = 10_000;

interface Entry {
  readonly ref: RequestRef;
  readonly lane: string;
  readonly deadlineMs: number;
}

/**
 * Goes through the open requests of every lane and mends what a process left behind that died between two steps. Many
 * may be started; one leads.
 */
export class RecordSweeper implements Sweeper {
  readonly #core: Core;
  readonly #lanes: () => Promise<string[]>;
  readonly #token = randomUUID();
  readonly #timer: NodeJS.Timeout;
  /** Where the next page of a lane begins. */
  readonly #offsets = new Map<string, number>();
  #leadsUntil = 0;
  #turn: Promise<number> | undefined;

  constructor(core: Core, lanes: () => Promise<string[]>) {
    this.#core = core;
    this.#lanes = lanes;
    this.#timer = setInterval(() => {
      // What fails in one turn is tried again in the next.
      this.sweep().catch((error: unknown) => core.observer.onError?.(toError(error)));
    }, turnMs);
    this.#timer.unref();
  }

  get isLeader(): boolean {
    return performance.now() < this.#leadsUntil;
  }

  async sweep(): Promise<number> {
    this.#turn ??= this.#takeTurn().finally(() => (this.#turn = undefined));
    return await this.#turn;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#turn?.catch(() => undefined);
    this.#leadsUntil = 0;
    await this.#lead('leave').catch(() => undefined);
  }

  async #takeTurn(): Promise<number> {
    const askedAt = performance.now();
    const isLeader = (await this.#lead('take')) === 1;
    this.#leadsUntil = isLeader ? askedAt + leadMs : 0;
    if (!isLeader) {
      return 0;
    }
    let repairs = 0;
    for (const lane of await this.#core.guard.run('lanes', this.#lanes)) {
      repairs += await this.#sweepLane(lane);
    }
    return repairs;
  }

  async #lead(what: 'take' | 'leave'): Promise<unknown> {
    const { records } = this.#core.connections;
    return await this.#core.guard.run('lead', () =>
      runScript(records, 'lead', [sweeperKey], [what, this.#token, leadMs]),
    );
  }

  /** The front in every turn, where those stand that are overdue, and then on from where the last turn ended. */
  async #sweepLane(lane: string): Promise<number> {
    const until = performance.now() + turnBudgetMs;
    let page = await this.#sweepPage(lane, 0);
    let { repairs } = page;
    let offset = Math.max(page.kept, this.#offsets.get(lane) ?? 0);
    while (!page.isLast && performance.now() < until) {
      page = await this.#sweepPage(lane, offset);
      repairs += page.repairs;
      offset += page.kept;
    }
    this.#offsets.set(lane, page.isLast ? 0 : offset);
    return repairs;
  }

  async #sweepPage(
    lane: string,
    offset: number,
  ): Promise<{ repairs: number; kept: number; isLast: boolean }> {
    const page = await this.#page(lane, offset);
    const kinds = await this.#core.guard.run('sweep', () =>
      Promise.all(page.map((entry) => this.#mend(entry))),
    );
    const repairs = kinds.filter((kind) => kind !== undefined);
    for (const kind of repairs) {
      this.#core.observer.onRepair?.(kind, lane);
    }
    const removed = repairs.filter((kind) => kind !== 'ticket-added').length;
    return {
      repairs: repairs.length,
      kept: page.length - removed,
      isLast: page.length < pageSize,
    };
  }

  async #page(lane: string, offset: number): Promise<Entry[]> {
    const flat = await this.#core.guard.run('sweep', () =>
      this.#core.connections.records.zrange(
        laneOpenKey(lane),
        offset,
        String(offset + pageSize - 1),
        'WITHSCORES',
      ),
    );
    const entries: Entry[] = [];
    for (let index = 0; index + 1 < flat.length; index += 2) {
      const ref = parseMember(flat[index] ?? '');
      if (ref !== undefined) {
        entries.push({ ref, lane, deadlineMs: Number(flat[index + 1]) });
      }
    }
    return entries;
  }

  async #mend({ ref, lane, deadlineMs }: Entry): Promise<RepairKind | undefined> {
    const { connections, queues } = this.#core;
    const [rec, body] = recordKeys(ref);
    const [state, generation, created] = await connections.records.hmget(rec, 's', 'g', 'c');
    const isLive = state === 'queued' || state === 'active';
    if (!isLive || generation !== ref.generation) {
      await this.#core.openSets.remove({ ...ref, lane });
      return 'closed-entry';
    }
    const nowMs = this.#core.serverNowMs();
    if (nowMs >= deadlineMs + overdueMs) {
      if ((await endOverdue(this.#core, ref, overdueMs)) !== true) {
        return undefined;
      }
      await queues.remove(ref, lane);
      return 'expired';
    }
    if (nowMs - Number(created) < youngMs) {
      return undefined;
    }
    if (state === 'queued' && (await connections.records.exists(body)) === 0) {
      return await this.#fail(ref, 'body lost', 'lost-body');
    }
    const ticket = await queues.queue(lane).getJobState(jobIdOf(ref));
    if (ticket === 'unknown') {
      await queues.add({ ...ref, lane }, { dueMs: deadlineMs, nowMs });
      return 'ticket-added';
    }
    if (ticket === 'failed') {
      const message = 'the request could not be run: its worker failed repeatedly';
      return await this.#fail(ref, message, 'failed-ticket');
    }
    return undefined;
  }

  async #fail(ref: RequestRef, message: string, kind: RepairKind): Promise<RepairKind | undefined> {
    const [what, lane] = await recordScript(this.#core, 'finish', ref, [
      ...[ref.generation, memberOf(ref), this.#core.settings.resultMs, 'error', 'INFERENCE_ERROR'],
      message,
    ]);
    if (what !== 'STORED') {
      return undefined;
    }
    this.#core.observer.onOutcome?.('INFERENCE_ERROR');
    await this.#core.openSets.remove({ ...ref, lane: String(lane) });
    return kind;
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error('sweeper: unknown failure');
}
