import { Gathering } from './gathering.ts';
import { laneOpenKey, memberOf, tenantOpenKey } from './keys.ts';
import { type Ticket } from './names.ts';
import { type RedisLike } from './script.ts';

interface Change {
  readonly member: string;
  /** Absent = the member leaves the set. */
  readonly deadlineMs?: number;
}

/** The sets of requests without an outcome, of each tenant and of each lane. */
export class OpenSets {
  readonly #tenants: Gathering<Change, void>;
  readonly #lanes: Gathering<Change, void>;

  constructor(records: RedisLike) {
    const change = async (key: string, changes: readonly Change[]): Promise<void> => {
      const added = changes.flatMap(({ member, deadlineMs }) =>
        deadlineMs === undefined ? [] : [deadlineMs, member],
      );
      const removed = changes.flatMap(({ member, deadlineMs }) =>
        deadlineMs === undefined ? [member] : [],
      );
      await Promise.all([
        added.length > 0 && records.zadd(key, ...added),
        removed.length > 0 && records.zrem(key, ...removed),
      ]);
    };
    this.#tenants = new Gathering(change);
    this.#lanes = new Gathering(change);
  }

  async add(ticket: Ticket, deadlineMs: number): Promise<void> {
    await this.#change(ticket, { member: memberOf(ticket), deadlineMs });
  }

  async remove(ticket: Ticket): Promise<void> {
    await this.#change(ticket, { member: memberOf(ticket) });
  }

  /** In this order: what is left in the lane's set is found by the sweeper, which then repeats both. */
  async #change({ tenant, lane }: Ticket, change: Change): Promise<void> {
    await Promise.all([
      this.#tenants.add(tenantOpenKey(tenant), change),
      this.#lanes.add(laneOpenKey(lane), change),
    ]);
  }
}
