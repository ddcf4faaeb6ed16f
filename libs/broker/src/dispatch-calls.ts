import { type Core, recordScript } from './core.ts';
import {
  type BeginResult,
  type Dispatch,
  type FinishResult,
  type ParkOptions,
  type ParkResult,
  type Standing,
} from './dispatch.ts';
import { gateKey, memberOf, recordKeys } from './keys.ts';
import { type Messages } from './messages.ts';
import { type RequestRef } from './names.ts';
import { type Outcome } from './outcome.ts';
import { type Quota } from './quota.ts';
import { type ScriptReply } from './script.ts';
import { type QueuedMode, type Tier } from './submission.ts';

const noBytes = Buffer.alloc(0);

/** Names and values in turn; what is not a list of texts was not written by this library. */
function headersOf(text: string): string[] {
  const headers: unknown = JSON.parse(text);
  return Array.isArray(headers) ? headers.map(String) : [];
}

/** The worker's half of the broker. */
export function dispatchCalls(core: Core, messages: Messages, quota: Quota): Dispatch {
  const { guard, connections, settings, observer } = core;

  async function begin(ref: RequestRef, token: string): Promise<BeginResult> {
    const member = memberOf(ref);
    const reply = await recordScript(core, 'begin', ref, [
      ...[ref.generation, token, settings.resultMs, member],
    ]);
    const [what, lane] = reply;
    if (what === 'RUN') {
      return { kind: 'run', request: requestOf(ref, reply) };
    }
    if (what === 'DONE' && typeof lane === 'string') {
      observer.onOutcome?.(String(reply[2]));
      await core.openSets.remove({ ...ref, lane });
    }
    return { kind: what === 'DONE' ? 'done' : 'gone' };
  }

  async function finish(ref: RequestRef, outcome: Outcome): Promise<FinishResult> {
    const isResponse = outcome.kind === 'response';
    const how = isResponse
      ? ['response', outcome.status, outcome.contentType ?? '']
      : ['error', outcome.code, outcome.message];
    const args = [ref.generation, memberOf(ref), settings.resultMs, ...how];
    const bytes = isResponse ? outcome.body : undefined;
    const [what, lane] = await recordScript(core, 'finish', ref, args, bytes);
    if (what === 'STORED') {
      observer.onOutcome?.(outcome.kind === 'response' ? 'response' : outcome.code);
      await core.openSets.remove({ ...ref, lane: String(lane) });
      return 'stored';
    }
    const why = what === 'ALREADY' ? 'already' : 'gone';
    observer.onDiscarded?.(why);
    return why;
  }

  async function park(ref: RequestRef, token: string, options: ParkOptions): Promise<ParkResult> {
    const { isRetry, last } = options;
    const args = [
      ...[ref.generation, token, isRetry ? '1' : '0', settings.resultMs],
      ...[last?.status ?? '', last?.contentType ?? ''],
    ];
    const [what] = await recordScript(core, 'park', ref, args, last?.body ?? noBytes);
    return what === 'OK' ? 'ok' : what === 'DONE' ? 'done' : 'gone';
  }

  async function standing(ref: RequestRef, token: string): Promise<Standing> {
    const [rec] = recordKeys(ref);
    const [state, generation, mark, owner] = await connections.records.hmget(
      ...([rec, 's', 'g', 'x', 'o'] as const),
    );
    if (state == null || state === 'tomb' || generation !== ref.generation) {
      return 'gone';
    }
    if (state === 'done') {
      return 'done';
    }
    if (mark != null) {
      return 'cancelled';
    }
    return owner === token ? 'running' : 'gone';
  }

  return {
    begin: (ref, token) => guard.run('begin', () => begin(ref, token)),
    body: (ref) =>
      guard.run(
        'body',
        async () => (await connections.records.getBuffer(recordKeys(ref)[1])) ?? undefined,
      ),
    finish: (ref, _token, outcome) =>
      guard.run('finish', () => finish(ref, outcome), {
        bytes: outcome.kind === 'response' ? outcome.body.byteLength : 0,
      }),
    park: (ref, token, options) =>
      guard.run('park', () => park(ref, token, options), {
        bytes: options.last?.body.byteLength ?? 0,
      }),
    standings: (runs) =>
      guard.run('standings', () => Promise.all(runs.map(({ ref, token }) => standing(ref, token)))),
    onCancel: (listener) => messages.onCancel(listener),
    gateBudget: (lane) =>
      guard.run('gate', async () => {
        const budget = Number((await connections.records.get(gateKey(lane))) ?? 1);
        return Number.isNaN(budget) ? 1 : Math.min(Math.max(budget, 0), 1);
      }),
    acquireQuota: (tenant) => quota.acquire(tenant),
  };
}

function requestOf(
  ref: RequestRef,
  reply: readonly ScriptReply[],
): Extract<BeginResult, { kind: 'run' }>['request'] {
  const text = (index: number): string => String(reply[index] ?? '');
  const number = (index: number): number => Number(reply[index]);
  const now = number(13);
  const traceparent = text(7);
  return {
    ...{ tenant: ref.tenant, id: ref.id, generation: ref.generation, lane: text(1) },
    // `admit` stored what the types of a submission allow.
    tier: text(2) as Tier,
    model: text(3),
    path: text(4),
    contentType: text(5),
    forwardedHeaders: headersOf(text(6)),
    ...(traceparent !== '' && { traceparent }),
    mode: text(8) as QueuedMode,
    starts: number(9),
    retries: number(10),
    remainingMs: number(11) - now,
    ageMs: now - number(12),
  };
}
