import { BrokerInputError } from './errors.ts';
import { isLaneName } from './names.ts';
import {
  type AckDurability,
  type BrokerOptions,
  type CompatCounters,
  type LaneConfig,
  type TenantConfig,
} from './options.ts';

const dayMs = 86_400_000;
const maxResultMs = 7 * dayMs;
const most = Number.MAX_SAFE_INTEGER;

/** `BrokerOptions` with every default filled in. */
export interface Settings {
  readonly lanes: ReadonlyMap<string, Required<LaneConfig>>;
  readonly tenant: (tenant: string) => Required<TenantConfig>;
  readonly maxHeldWaits: number;
  readonly maxBodyBytesInFlight: number;
  readonly maxMemoryRatio: number;
  readonly resultMs: number;
  readonly fetchGraceMs: number;
  readonly attachesOnConflict: boolean;
  /** As `admit` takes them: `,a,b,`. */
  readonly rerunOnRetry: string;
  readonly cancelsActive: boolean;
  readonly deletesActive: boolean;
  readonly ackDurability: AckDurability;
  readonly requiresAppendOnlyFile: boolean;
  readonly compatCounters: CompatCounters | undefined;
}

function check(name: string, value: number, min: number, max: number): number {
  if (!Number.isFinite(value) || value < min || value > max) {
    throw new BrokerInputError(`${name}: expected ${min} to ${max}, got ${value}`);
  }
  return value;
}

/** Throws BrokerInputError for a configuration that cannot work; the message names the key. */
export function settingsOf(options: BrokerOptions): Settings {
  const { limits = {}, lifetimes = {}, tenant } = options;
  const lanes = new Map<string, Required<LaneConfig>>();
  for (const lane of options.lanes) {
    if (!isLaneName(lane.name)) {
      throw new BrokerInputError('lanes: a name has 1 to 48 characters of a-z, 0-9 and -');
    }
    if (lanes.has(lane.name)) {
      throw new BrokerInputError(`lanes: ${lane.name} stands twice`);
    }
    lanes.set(lane.name, { order: 'edf', maxBacklog: 100_000, ...lane });
  }
  if (lanes.size === 0) {
    throw new BrokerInputError('lanes: expected at least one');
  }
  const { compatCounters } = options;
  if (compatCounters) check('window_seconds', compatCounters.windowSeconds, 1, most);
  const ackDurability = options.ackDurability ?? 'none';
  if (ackDurability !== 'none' && 'clusterUrls' in options.redis) {
    throw new BrokerInputError(`ack_durability: ${ackDurability} needs one server, not a cluster`);
  }
  const defaults = { maxBacklog: 10_000, weight: 1, concurrency: 0 };
  return {
    lanes,
    tenant: (name) => ({ ...defaults, ...tenant?.(name) }),
    maxHeldWaits: check('max_held_waits', limits.maxHeldWaits ?? 5_000, 0, most),
    maxBodyBytesInFlight: check(
      'max_body_bytes_in_flight',
      limits.maxBodyBytesInFlight ?? 256 * 1024 * 1024,
      1,
      most,
    ),
    maxMemoryRatio: check('max_memory_ratio', limits.maxMemoryRatio ?? 0.8, 0, 1),
    resultMs: check('result_ttl', Math.round(lifetimes.resultMs ?? 3_600_000), 1, maxResultMs),
    fetchGraceMs: check(
      'fetch_grace',
      Math.round(lifetimes.fetchGraceMs ?? 60_000),
      0,
      maxResultMs,
    ),
    attachesOnConflict: options.idConflict === 'attach',
    rerunOnRetry: `,${(options.rerunOnRetry ?? []).join(',')},`,
    cancelsActive: options.cancelActiveOnDisconnect ?? true,
    deletesActive: options.deleteActive !== 'detach',
    ackDurability,
    requiresAppendOnlyFile: (options.appendOnlyFile ?? 'require') === 'require',
    compatCounters,
  };
}
