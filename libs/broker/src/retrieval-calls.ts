import { type Core, endOverdue, recordScript } from './core.ts';
import { type CancelReason } from './dispatch.ts';
import { recordKeys, tenantPart } from './keys.ts';
import { type RequestName, type RequestRef } from './names.ts';
import { type Outcome, type OutcomeCode } from './outcome.ts';
import { type CancelResult, type FetchResult } from './retrieval.ts';

/** What stands under a name, and of one without an outcome the deadline by the clock of Redis. */
interface Look {
  readonly found: FetchResult;
  readonly deadlineMs: number;
}

const unknown: Look = { found: { kind: 'unknown' }, deadlineMs: Infinity };

/** Reads in one round trip; a `generation` hides all others. */
async function look(core: Core, name: RequestName, generation?: string): Promise<Look> {
  const { records } = core.connections;
  const [rec, , res] = recordKeys(name);
  const [fields, body] = await Promise.all([
    records.hmget(rec, 's', 'g', 'd', 'x', 'rs', 'rc', 'rm', 'rct'),
    records.getBuffer(res),
  ]);
  const [state, found, deadline, mark, status, code, message, contentType] = fields;
  const isMissing = state === null || state === undefined || state === 'tomb';
  if (isMissing || typeof found !== 'string' || (generation ?? found) !== found) {
    return unknown;
  }
  const ref: RequestRef = { tenant: name.tenant, id: name.id, generation: found };
  const ready = (outcome: Outcome): Look => ({
    found: { kind: 'ready', ...ref, outcome },
    deadlineMs: Infinity,
  });
  if (state !== 'done') {
    if (mark !== null) {
      return ready({ kind: 'error', code: 'CANCELLED', message: 'the request was cancelled' });
    }
    const deadlineMs = Number(deadline);
    const remainingMs = deadlineMs - core.serverNowMs();
    const known = state === 'active' ? 'active' : 'queued';
    return { found: { kind: 'pending', ...ref, state: known, remainingMs }, deadlineMs };
  }
  if (typeof code === 'string') {
    // Only codes of the union are ever stored.
    return ready({ kind: 'error', code: code as OutcomeCode, message: message ?? '' });
  }
  if (!Buffer.isBuffer(body)) {
    // Expired or deleted between the two reads.
    return unknown;
  }
  const type = contentType ? { contentType } : {};
  return ready({ kind: 'response', status: Number(status), ...type, body });
}

/** `Broker.fetch`, unguarded: one that is overdue is ended here, whether or not any worker runs. */
export async function fetchRecord(
  core: Core,
  name: RequestName,
  generation?: string,
): Promise<FetchResult> {
  const { found, deadlineMs } = await look(core, name, generation);
  if (found.kind !== 'pending' || deadlineMs > core.serverNowMs()) {
    return found;
  }
  const left = await endOverdue(core, found, 0);
  if (typeof left === 'number') {
    return { ...found, remainingMs: left };
  }
  return (await look(core, name, generation)).found;
}

/** `Broker.cancel` for DELETE, unguarded. */
export async function deleteRecord(core: Core, name: RequestName): Promise<CancelResult> {
  const [what, lane, generation] = await cancelScript(core, name, '', 'delete', 'drop');
  if (what === 'NONE' || what === 'KEPT') {
    return what === 'NONE' ? 'none' : 'kept';
  }
  const ref = { ...name, generation: String(generation) };
  if (what === 'DELETED') {
    return 'deleted';
  }
  await core.openSets.remove({ ...ref, lane: String(lane) });
  if (what === 'ACTIVE') {
    return 'active';
  }
  await core.queues.remove(ref, String(lane));
  return 'queued';
}

/** A waiter's end without an answer; see `WaitEnd`, `left`. */
export async function leaveRecord(core: Core, ref: RequestRef): Promise<CancelResult> {
  const [what, lane] = await cancelScript(core, ref, ref.generation, 'disconnect', 'leave');
  if (what === 'ACTIVE') {
    core.observer.onOutcome?.('CANCELLED');
    await core.openSets.remove({ ...ref, lane: String(lane) });
    return 'active';
  }
  if (what === 'QUEUED') {
    return 'queued';
  }
  return what === 'KEPT' ? 'kept' : 'none';
}

async function cancelScript(
  core: Core,
  name: RequestName,
  generation: string,
  reason: CancelReason,
  what: 'drop' | 'leave',
): ReturnType<typeof recordScript> {
  const { resultMs, cancelsActive, deletesActive } = core.settings;
  const endsActive = what === 'drop' ? deletesActive : cancelsActive;
  return await recordScript(core, 'cancel', name, [
    ...[`${tenantPart(name.tenant)}~${name.id}`, generation, reason, what],
    ...[resultMs, endsActive ? '1' : '0'],
  ]);
}
