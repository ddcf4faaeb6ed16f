import { readdirSync, readlinkSync } from 'node:fs';
import { type Stack } from '@llm-d/local-stack';
import { type EngineState } from '@llm-d/worker-sim';
import { request } from 'undici';
import { until } from './until.ts';

/** Hand-offs as `GET /debug/handoffs` counts them. */
export interface HandoffCounts {
  readonly offered: number;
  readonly used: number;
  readonly released: number;
  readonly expired: number;
}

/** What is there when nobody asks any more. */
export interface Rest {
  readonly kv: HandoffCounts;
  readonly ec: HandoffCounts;
  /** Block sets of the prefill workers. */
  readonly leases: {
    readonly held: number;
    readonly pulled: number;
    readonly released: number;
    readonly expired: number;
    readonly pulledAgain: number;
    readonly pulledLate: number;
  };
  /** What the coordinator's gauges say of requests, steps, the queue and bodies in memory. */
  readonly permits: Readonly<Record<string, number>>;
  /** Requests that workers still run, or let wait. */
  readonly running: number;
  /** Legs that the coordinator holds open. */
  readonly openLegs: number;
  /** Sockets that the coordinator has beyond those of the start; undefined where that cannot be seen. */
  readonly sockets: number | undefined;
}

const permitGauges = [
  'request_running',
  'step_running',
  'admission_queued',
  'admission_body_bytes',
] as const;

/** Looks until nothing is in flight; what it sees after `limitMs` is what is stranded. */
export async function untilRest(
  stack: Stack,
  openLegs: () => number,
  socketsBefore: number | undefined,
  limitMs: number,
): Promise<Rest> {
  let seen: Rest | undefined;
  try {
    return await until(
      'rest',
      async () => {
        seen = await look(stack, openLegs(), socketsBefore);
        return leftovers(seen).length === 0 ? seen : undefined;
      },
      limitMs,
    );
  } catch (error) {
    if (!seen) throw error;
    return seen;
  }
}

/** What should have come to an end and has not, in words. */
export function leftovers({ kv, ec, leases, permits, running, openLegs, sockets }: Rest): string[] {
  const counts = {
    'KV hand-offs without an outcome': openOf(kv),
    'EC hand-offs without an outcome': openOf(ec),
    'leases held by prefill workers': leases.held,
    ...permits,
    'requests in workers': running,
    'legs open': openLegs,
    'sockets open': sockets ?? 0,
  };
  return Object.entries(counts)
    .filter(([, count]) => count !== 0)
    .map(([name, count]) => `${name}: ${count}`);
}

const openOf = ({ offered, used, released, expired }: HandoffCounts): number =>
  offered - used - released - expired;

async function look(
  stack: Stack,
  openLegs: number,
  socketsBefore: number | undefined,
): Promise<Rest> {
  const { coordinatorDebugUrl, coordinatorMetricsUrl, pods, children } = stack;
  const [handoffs, metrics, states] = await Promise.all([
    get(`${coordinatorDebugUrl}/debug/handoffs`).then(
      (text) => JSON.parse(text) as Record<'kv' | 'ec', Record<string, HandoffCounts>>,
    ),
    get(coordinatorMetricsUrl),
    Promise.all(
      pods.map(async ({ url }) => JSON.parse(await get(`${url}/admin/state`)) as EngineState),
    ),
  ]);
  const open = openSockets(children.pid('coordinator'));
  const none: HandoffCounts = { offered: 0, used: 0, released: 0, expired: 0 };
  return {
    kv: handoffs.kv['kv-nixl'] ?? none,
    ec: handoffs.ec['ec-nixl'] ?? none,
    leases: states.map(({ leases }) => leases).reduce(add),
    permits: Object.fromEntries(permitGauges.map((name) => [name, gauge(metrics, name)])),
    running: states.reduce((all, { running, waiting }) => all + running + waiting, 0),
    openLegs,
    sockets:
      open === undefined || socketsBefore === undefined
        ? undefined
        : Math.max(0, open - socketsBefore),
  };
}

/** A connection of its own, that is no longer there when sockets are counted next. */
async function get(url: string): Promise<string> {
  const { statusCode, body } = await request(url, { reset: true });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`);
  return text;
}

function add<T extends Readonly<Record<keyof T, number>>>(one: T, other: T): T {
  const names = Object.keys(one) as (keyof T)[];
  return Object.fromEntries(names.map((name) => [name, one[name] + other[name]])) as T;
}

/** The sum over all labels. @throws Error when there is no such gauge. */
function gauge(metrics: string, name: string): number {
  const full = `llm_d_coordinator_${name}`;
  if (!metrics.includes(`# TYPE ${full} gauge`)) throw new Error(`no gauge ${full}`);
  const values = metrics.matchAll(new RegExp(`^${full}(?:\\{.*\\})? (\\S+)$`, 'gm'));
  return [...values].reduce((sum, [, value]) => sum + Number(value), 0);
}

/** Sockets of a process; undefined where the system does not show them. */
export function openSockets(pid: number | undefined): number | undefined {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).filter((fd) => isSocket(`${folder}/${fd}`)).length;
  } catch {
    return undefined;
  }
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    // Closed in the meantime.
    return false;
  }
}
