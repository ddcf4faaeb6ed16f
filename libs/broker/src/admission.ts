import { createHash, randomUUID } from 'node:crypto';
import { type Core, recordScript } from './core.ts';
import { BrokerInputError, BrokerUnavailableError } from './errors.ts';
import { idempotencyKey, laneOpenKey, lanesKey, tenantOpenKey } from './keys.ts';
import { fairDueMs } from './lane-queues.ts';
import { isRequestId, newRequestId, tenantProblem } from './names.ts';
import { OpenCounts } from './open-counts.ts';
import { type RedisLike } from './script.ts';
import {
  type Accepted,
  type Conflict,
  type RefusalReason,
  type Refused,
  type Submission,
  type SubmitResult,
} from './submission.ts';

const kinds = { NEW: 'new', LIVE: 'live', REVIVED: 'revived', READY: 'ready' } as const;
const memoryRetrySeconds = 5;
/** An entry this long past its deadline was forgotten by a process that died. */
const forgottenMs = 60_000;
const maxPointerTries = 3;
const noBytes = Buffer.alloc(0);

/** What admission reads of its process at this moment. */
export interface AdmissionGauges {
  readonly memoryRatio: () => number;
  readonly heldWaits: () => number;
}

/** Same path and bytes, same request; the model stands in the bytes. */
function hashOf({ path, body }: Submission): string {
  return createHash('sha256').update(path).update('\n').update(body).digest('base64url');
}

/** A tenant's open requests, without those that a process forgot; they leave the set. */
async function countKnown(records: RedisLike, key: string, nowMs: number): Promise<number> {
  const [, count] = await Promise.all([
    records.zremrangebyscore(key, '-inf', nowMs - forgottenMs),
    records.zcard(key),
  ]);
  return count;
}

/** Takes requests into the queue (4.4, admission order; 4.9, limits). */
export class Admission {
  readonly #core: Core;
  readonly #gauges: AdmissionGauges;
  readonly #counts = new OpenCounts();
  readonly #knownLanes = new Set<string>();
  #bodyBytes = 0;

  constructor(core: Core, gauges: AdmissionGauges) {
    this.#core = core;
    this.#gauges = gauges;
  }

  /** See `Broker.submit`. */
  async submit(submission: Submission): Promise<SubmitResult> {
    const { settings, guard } = this.#core;
    const { tenant, lane, body, mode } = submission;
    const problem = tenantProblem(tenant);
    if (problem !== undefined) {
      throw new BrokerInputError(`tenant ${problem}`);
    }
    if (submission.id !== undefined && !isRequestId(submission.id)) {
      throw new BrokerInputError('id: expected 1 to 128 letters, digits and -');
    }
    if (!settings.lanes.has(lane)) {
      throw new BrokerInputError('lane: not configured');
    }
    if (!Number.isSafeInteger(submission.timeoutMs) || submission.timeoutMs <= 0) {
      throw new BrokerInputError('timeoutMs: expected a positive integer');
    }
    const id = submission.id ?? newRequestId();
    const refuse = (reason: RefusalReason, retryAfterSeconds: number): Refused => ({
      kind: 'refused',
      reason,
      id,
      retryAfterSeconds,
    });
    if (mode === 'wait' && this.#gauges.heldWaits() >= settings.maxHeldWaits) {
      return refuse('held-waits', 1);
    }
    if (this.#bodyBytes + body.byteLength > settings.maxBodyBytesInFlight) {
      return refuse('body-bytes', 1);
    }
    this.#bodyBytes += body.byteLength;
    try {
      return await guard.run('submit', () => this.#admit(submission, id), {
        id,
        bytes: body.byteLength,
      });
    } finally {
      this.#bodyBytes -= body.byteLength;
    }
  }

  async #admit(submission: Submission, askedId: string): Promise<SubmitResult> {
    const { connections, settings } = this.#core;
    const { tenant, lane } = submission;
    const { records } = connections;
    const hash = hashOf(submission);
    const pointer =
      submission.idempotencyKey === undefined
        ? { id: askedId, isMade: false }
        : await this.#followKey(submission, submission.idempotencyKey, askedId, hash);
    if ('kind' in pointer) {
      return pointer;
    }
    const { id, isMade } = pointer;
    const count = (key: string): Promise<number> => records.zcard(key);
    const laneLimit = settings.lanes.get(lane)?.maxBacklog ?? 0;
    const tenantLimit = settings.tenant(tenant).maxBacklog;
    const [laneOpen, tenantOpen] = await Promise.all([
      this.#counts.below(laneLimit, laneOpenKey(lane), count),
      this.#counts.below(tenantLimit, tenantOpenKey(tenant), (key) =>
        countKnown(records, key, this.#core.serverNowMs()),
      ),
    ]);
    const refusal = await this.#refusal(submission, id, laneOpen, tenantOpen);
    // A request that is in already is found even when no further one may come in.
    const result = await this.#runAdmit(submission, id, hash, refusal === undefined);
    if (result === 'FULL' || result === 'CONFLICT') {
      if (isMade && submission.idempotencyKey !== undefined) {
        await records.del(idempotencyKey(tenant, submission.idempotencyKey));
      }
      return result === 'FULL' && refusal !== undefined ? refusal : { kind: 'id-conflict', id };
    }
    const { accepted, deadlineMs, nowMs } = result;
    if (accepted.kind !== 'ready') {
      const { weight } = settings.tenant(tenant);
      const isFair = settings.lanes.get(accepted.lane)?.order === 'fair-edf';
      const dueMs = isFair ? fairDueMs(deadlineMs, nowMs, tenantOpen, weight) : deadlineMs;
      await this.#open(accepted, deadlineMs);
      // Also for one that was in: it heals a ticket that was lost, and does nothing otherwise.
      await this.#core.queues.add(accepted, { dueMs, nowMs });
      await this.#acknowledge(id);
    }
    return accepted;
  }

  /** Where the client's `Idempotency-Key` points. */
  async #followKey(
    { tenant, timeoutMs }: Submission,
    key: string,
    askedId: string,
    hash: string,
  ): Promise<{ id: string; isMade: boolean } | Conflict> {
    const { records } = this.#core.connections;
    const name = idempotencyKey(tenant, key);
    const lifeMs = timeoutMs + 60_000 + this.#core.settings.resultMs;
    // Between the two commands the pointer may expire.
    for (let tries = 0; tries < maxPointerTries; tries += 1) {
      if ((await records.set(name, `${askedId} ${hash}`, 'PX', lifeMs, 'NX')) === 'OK') {
        return { id: askedId, isMade: true };
      }
      const [id = '', keyHash] = ((await records.get(name)) ?? '').split(' ');
      if (id !== '') {
        return keyHash === hash ? { id, isMade: false } : { kind: 'key-conflict', id };
      }
    }
    throw new BrokerUnavailableError('reply', 'the Idempotency-Key does not stay', { id: askedId });
  }

  async #refusal(
    { tenant, lane }: Submission,
    id: string,
    laneOpen: number,
    tenantOpen: number,
  ): Promise<Refused | undefined> {
    const { settings, queues } = this.#core;
    if (this.#gauges.memoryRatio() >= settings.maxMemoryRatio) {
      const retryAfterSeconds = memoryRetrySeconds;
      return { kind: 'refused', reason: 'redis-memory', id, retryAfterSeconds };
    }
    const isLaneFull = laneOpen >= (settings.lanes.get(lane)?.maxBacklog ?? 0);
    if (!isLaneFull && tenantOpen < settings.tenant(tenant).maxBacklog) {
      return undefined;
    }
    const backlog = isLaneFull ? laneOpen : tenantOpen;
    const seconds = Math.ceil(backlog / (await queues.finishRate(lane)));
    return {
      kind: 'refused',
      reason: isLaneFull ? 'lane-backlog' : 'tenant-backlog',
      id,
      retryAfterSeconds: Math.min(Math.max(seconds, 1), 60),
    };
  }

  async #runAdmit(
    submission: Submission,
    id: string,
    hash: string,
    mayMake: boolean,
  ): Promise<'FULL' | 'CONFLICT' | { accepted: Accepted; deadlineMs: number; nowMs: number }> {
    const { settings } = this.#core;
    const { tenant, lane, mode, tier, model, path, contentType, traceparent } = submission;
    const [what, generation, deadline, now, foundLane] = await recordScript(
      this.#core,
      'admit',
      { tenant, id },
      [
        ...[randomUUID().slice(0, 8), hash, submission.timeoutMs, settings.resultMs],
        ...[mode === 'wait' ? '1' : '0', mayMake ? '1' : '0'],
        ...[settings.attachesOnConflict ? '1' : '0', settings.rerunOnRetry],
        ...[lane, 'tier', tier, 'model', model, 'path', path, 'ct', contentType],
        ...['fh', JSON.stringify(submission.forwardedHeaders), 'mode', mode],
        ...(traceparent === undefined ? [] : ['tp', traceparent]),
      ],
      mayMake ? submission.body : noBytes,
    );
    if (what === 'FULL' || what === 'CONFLICT') {
      return what;
    }
    const deadlineMs = Number(deadline);
    const nowMs = Number(now);
    const accepted = {
      // The script answers nothing else.
      kind: kinds[what as keyof typeof kinds],
      ...{ tenant, id, generation: String(generation), lane: String(foundLane) },
      remainingMs: deadlineMs - nowMs,
    };
    return { accepted, deadlineMs, nowMs };
  }

  async #open(accepted: Accepted, deadlineMs: number): Promise<void> {
    const { connections, openSets } = this.#core;
    const { tenant, lane } = accepted;
    this.#counts.add(tenantOpenKey(tenant));
    this.#counts.add(laneOpenKey(lane));
    const isKnown = this.#knownLanes.has(lane);
    await Promise.all([
      isKnown || connections.records.sadd(lanesKey, lane),
      openSets.add(accepted, deadlineMs),
    ]);
    this.#knownLanes.add(lane);
  }

  /** Waits until the record is as safe as the configuration wants it; the ticket can be made again from it. */
  async #acknowledge(id: string): Promise<void> {
    const { ackDurability } = this.#core.settings;
    const { records } = this.#core.connections;
    if (ackDurability === 'none') {
      return;
    }
    const isSafe =
      ackDurability === 'replica'
        ? Number(await records.call('WAIT', '1', '100')) >= 1
        : // Local file, replicas' files.
          Number(((await records.call('WAITAOF', '1', '0', '200')) as unknown[])[0]) >= 1;
    if (!isSafe) {
      throw new BrokerUnavailableError('timeout', `${ackDurability}: not acknowledged`, { id });
    }
  }
}
