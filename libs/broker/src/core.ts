import { type Connections } from './connections.ts';
import { type Guard } from './guard.ts';
import { laneOpenKey, memberOf, recordKeys, tenantOpenKey } from './keys.ts';
import { type LaneQueues } from './lane-queues.ts';
import { type RequestRef } from './names.ts';
import { type BrokerObserver } from './observer.ts';
import { runScript, type ScriptReply } from './script.ts';
import { type Settings } from './settings.ts';

/** What the parts of a broker share. */
export interface Core {
  readonly settings: Settings;
  readonly connections: Connections;
  readonly guard: Guard;
  readonly queues: LaneQueues;
  readonly observer: BrokerObserver;
  /** The clock of Redis as far as this process knows; scripts decide, this only spares calls. */
  serverNowMs(): number;
}

/** Runs one of a request's scripts; answers its parts. */
export async function recordScript(
  core: Core,
  name: 'admit' | 'begin' | 'finish' | 'park' | 'cancel' | 'touch',
  ref: { readonly tenant: string; readonly id: string },
  args: readonly (string | number | Uint8Array)[],
): Promise<ScriptReply[]> {
  const reply = await runScript(core.connections.records, name, recordKeys(ref), args);
  return Array.isArray(reply) ? reply : [reply];
}

/** Takes a request out of the open sets of its lane and tenant. */
export async function closeEntry(
  { connections }: Core,
  ref: RequestRef,
  lane: string,
): Promise<void> {
  const member = memberOf(ref);
  // In this order: what is left in the lane's set is found by the sweeper, which then repeats both.
  await Promise.all([
    connections.records.zrem(tenantOpenKey(ref.tenant), member),
    connections.records.zrem(laneOpenKey(lane), member),
  ]);
}

/**
 * Ends a request whose deadline was `graceMs` ago. Answers the milliseconds that are left when it was not, by the clock
 * of Redis, and otherwise whether this call ended it.
 */
export async function endOverdue(
  core: Core,
  ref: RequestRef,
  graceMs: number,
): Promise<number | boolean> {
  const [what, lane, left] = await recordScript(core, 'finish', ref, [
    ...[ref.generation, memberOf(ref), core.settings.resultMs, 'overdue', graceMs],
  ]);
  if (what === 'EARLY') {
    return Number(left);
  }
  if (what === 'STORED') {
    core.observer.onOutcome?.('DEADLINE_EXCEEDED');
    await closeEntry(core, ref, String(lane));
  }
  return what === 'STORED';
}
