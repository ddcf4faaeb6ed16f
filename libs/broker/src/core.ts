import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { type Connections } from './connections.ts';
import { type Guard } from './guard.ts';
import { memberOf, recordKeys, uploadKey } from './keys.ts';
import { type LaneQueues } from './lane-queues.ts';
import { type RequestName, type RequestRef } from './names.ts';
import { type BrokerObserver } from './observer.ts';
import { type OpenSets } from './open-sets.ts';
import { runScript, type ScriptReply } from './script.ts';
import { type Settings } from './settings.ts';

/** What the parts of a broker share. */
export interface Core {
  readonly settings: Settings;
  readonly connections: Connections;
  readonly guard: Guard;
  readonly queues: LaneQueues;
  readonly openSets: OpenSets;
  readonly observer: BrokerObserver;
  /** The clock of Redis as far as this process knows; scripts decide, this only spares calls. */
  serverNowMs(): number;
}

/** Longer bytes than these do not pass through a script. */
const maxArgumentBytes = 16 * 1024;
/** What is left of an upload whose script did not take it. */
const uploadLifeMs = 60_000;

/** Runs one of a request's scripts; answers its parts. `bytes` becomes the last argument, or an upload. */
export async function recordScript(
  { connections }: Core,
  name: 'admit' | 'begin' | 'finish' | 'park' | 'cancel' | 'touch',
  ref: RequestName,
  args: readonly (string | number | Uint8Array)[],
  bytes?: Uint8Array,
): Promise<ScriptReply[]> {
  const { records } = connections;
  const keys = recordKeys(ref);
  if (bytes === undefined) {
    return listOf(await runScript(records, name, [...keys, uploadKey(ref, '')], args));
  }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.byteLength <= maxArgumentBytes) {
    // ioredis puts a command together piece by piece when an argument is bytes: what is text goes as text.
    const last = isUtf8(buffer) ? buffer.toString() : buffer;
    const all = [...args, last];
    return listOf(await runScript(records, name, [...keys, uploadKey(ref, '')], all));
  }
  const upload = uploadKey(ref, randomUUID());
  // One connection keeps their order.
  const [, reply] = await Promise.all([
    records.set(upload, buffer, 'PX', uploadLifeMs),
    runScript(records, name, [...keys, upload], [...args, '']),
    // A script that did not want the bytes left them.
    records.unlink(upload),
  ]);
  return listOf(reply);
}

const listOf = (reply: ScriptReply | ScriptReply[]): ScriptReply[] =>
  Array.isArray(reply) ? reply : [reply];

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
    await core.openSets.remove({ ...ref, lane: String(lane) });
  }
  return what === 'STORED';
}
