import { randomBytes, randomUUID } from 'node:crypto';
import { canonicalText, exactNumber, type JsonObject } from './exact-json.ts';

/** How a pull ended; everything but `ok` is a refusal. */
export type PullResult =
  | 'ok'
  | 'unknown-engine'
  | 'unknown-lease'
  | 'expired'
  | 'already-pulled'
  | 'altered'
  | 'other-prompt';

/** What the side channel tells the puller. */
export interface PullAnswer {
  result: PullResult;
  detail: string;
  pod: string;
  blocks: number;
}

/** How a lease ended: `released` = decode gave the request up before it was scheduled, and said so. */
export type LeaseEnd = 'pulled' | 'expired' | 'released';

interface Lease {
  requestId: string;
  promptDigest: string;
  blocks: number;
  params: JsonObject;
  status: 'held' | LeaseEnd;
  timer: NodeJS.Timeout | undefined;
}

/** Leases by what became of them; what stays `held` is stranded until it expires. */
export interface LeaseCounts extends Record<'held' | LeaseEnd, number> {
  /** Pulls that were refused because the blocks had been pulled before. */
  pulledAgain: number;
  /** Pulls that were refused because the lease had ended, by expiry or release. */
  pulledLate: number;
}

/** Where decode reaches this pod's side channel. */
export interface SidePeer {
  host: string;
  port: number;
}

/** Closed leases that are still told apart from unknown ones. */
const rememberedLeases = 1000;

/** The only two members that a coordinator may turn round on the way to decode. */
const turnedByCoordinator = ['do_remote_prefill', 'do_remote_decode'];

/**
 * The block sets that prefill made and decode has not fetched yet. A set is handed out once, for the
 * prompt it was made for, with every parameter as it was answered, before the lease ends.
 */
export class KvLeases {
  #engineId: string = randomUUID();
  #nextBlock = 1;
  readonly #leases = new Map<string, Lease>();
  #counts = noCounts();
  readonly #pod: string;
  readonly #leaseMs: () => number;
  readonly #release: (blocks: number, reason: LeaseEnd) => void;

  constructor(options: {
    pod: string;
    leaseMs: () => number;
    /** Called once per lease, when its blocks are free again. */
    release: (blocks: number, reason: LeaseEnd) => void;
  }) {
    this.#pod = options.pod;
    this.#leaseMs = options.leaseMs;
    this.#release = options.release;
  }

  /** Changes with every {@link reset}, as a restarted pod's does. */
  get engineId(): string {
    return this.#engineId;
  }

  /** Opens a lease and returns the `kv_transfer_params` of the prefill answer, in vLLM 0.32's shape. */
  grant(
    prompt: { requestId: string; digest: string; tokens: number; cachedTokens: number },
    blocks: number,
    peer: SidePeer,
  ): JsonObject {
    // One counter per pod from 1: two pods hand out overlapping numbers, so only the engine id tells them apart.
    const blockIds = Array.from({ length: blocks }, () => this.#nextBlock++);
    const requestId = `${prompt.requestId}-${randomBytes(4).toString('hex')}`;
    const params: JsonObject = {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [blockIds],
      remote_engine_id: this.#engineId,
      remote_request_id: requestId,
      remote_host: peer.host,
      remote_port: peer.port,
      tp_size: 1,
      dcp_size: 1,
      pp_size: 1,
      remote_num_tokens: prompt.tokens,
      remote_blocks_expiry_time: null,
      transfer_mode: 'pull',
      remote_prefill_cached_tokens: prompt.cachedTokens,
      // Not vLLM's: odd and above 2^53, so that whoever passes it through a double is caught.
      sim_lease_nonce: exactNumber(
        String((randomBytes(8).readBigUInt64BE() >> 1n) | (1n << 60n) | 1n),
      ),
    };
    const lease: Lease = {
      requestId,
      promptDigest: prompt.digest,
      blocks,
      params,
      status: 'held',
      timer: undefined,
    };
    lease.timer = setTimeout(() => this.#close(lease, 'expired'), this.#leaseMs());
    this.#leases.set(requestId, lease);
    this.#forgetOldest();
    return params;
  }

  /** Checks everything decode sent against the lease, in the order in which a mistake is best named. */
  pull(params: JsonObject, digest: string): PullAnswer {
    const refuse = (result: PullResult, detail: string): PullAnswer => ({
      result,
      detail,
      pod: this.#pod,
      blocks: 0,
    });
    if (params['remote_engine_id'] !== this.#engineId) {
      return refuse('unknown-engine', 'remote_engine_id is not this engine');
    }
    const lease = this.#leases.get(String(params['remote_request_id']));
    if (!lease) return refuse('unknown-lease', 'no lease for remote_request_id');
    if (lease.status === 'pulled') {
      this.#counts.pulledAgain += 1;
      return refuse('already-pulled', 'the blocks were pulled before');
    }
    if (lease.status !== 'held') {
      this.#counts.pulledLate += 1;
      return refuse('expired', 'the lease has ended');
    }
    const altered = alteredField(lease.params, params);
    if (altered !== undefined) return refuse('altered', `${altered} is not what prefill answered`);
    if (lease.promptDigest !== digest) {
      return refuse('other-prompt', 'the blocks were made for another prompt');
    }
    this.#close(lease, 'pulled');
    return { result: 'ok', detail: '', pod: this.#pod, blocks: lease.blocks };
  }

  /** Ends the lease of these params, if it is open. */
  end(params: JsonObject, how: 'expired' | 'released'): void {
    if (params['remote_engine_id'] !== this.#engineId) return;
    const lease = this.#leases.get(String(params['remote_request_id']));
    if (lease) this.#close(lease, how);
  }

  /** How many leases are open, how the others ended, and what was tried with ended ones. */
  counts(): LeaseCounts {
    const held = [...this.#leases.values()].filter(({ status }) => status === 'held').length;
    return { held, ...this.#counts };
  }

  /** Forgets everything and becomes another engine. */
  reset(): void {
    for (const lease of this.#leases.values()) this.#close(lease, 'expired');
    this.#leases.clear();
    this.#counts = noCounts();
    this.#engineId = randomUUID();
  }

  #close(lease: Lease, status: LeaseEnd): void {
    if (lease.status !== 'held') return;
    clearTimeout(lease.timer);
    lease.status = status;
    this.#counts[status] += 1;
    this.#release(lease.blocks, status);
  }

  #forgetOldest(): void {
    if (this.#leases.size <= rememberedLeases) return;
    for (const [id, { status }] of this.#leases) {
      if (status === 'held') continue;
      this.#leases.delete(id);
      return;
    }
  }
}

const noCounts = (): Omit<LeaseCounts, 'held'> => ({
  ...{ pulled: 0, expired: 0, released: 0 },
  ...{ pulledAgain: 0, pulledLate: 0 },
});

/** The first member that is missing, added or different, digit by digit; undefined when there is none. */
export function alteredField(answered: JsonObject, received: JsonObject): string | undefined {
  const names = new Set([...Object.keys(answered), ...Object.keys(received)]);
  return [...names].find(
    (name) =>
      !turnedByCoordinator.includes(name) &&
      canonicalText(answered[name]) !== canonicalText(received[name]),
  );
}
