import { createHash } from 'node:crypto';
import { type RequestName, type RequestRef, type Ticket } from './names.ts';

/**
 * Names of keys and channels (4.3). What one script touches carries one hash tag, and so lies on one node of a cluster:
 * all of a request under `{tenant~id}`, all of a lane under `{ab:<lane>}`.
 */
export const channels = { done: 'ab:done', cancel: 'ab:cancel' } as const;

/** Lanes that ever had a request. */
export const lanesKey = 'ab:lanes';

/** Held by the process whose sweeper works. */
export const sweeperKey = 'ab:sweeper';

/** Every request asks several times; tenants are without bound. */
const knownParts = new Map<string, string>();
const maxKnownParts = 1_000;

/** A tenant as part of a key: base64url of its UTF-8, no padding, so that it holds no separator. */
export function tenantPart(tenant: string): string {
  let part = knownParts.get(tenant);
  if (part === undefined) {
    part = Buffer.from(tenant, 'utf8').toString('base64url');
    if (knownParts.size >= maxKnownParts) knownParts.clear();
    knownParts.set(tenant, part);
  }
  return part;
}

/** Record, body and result of a request, in the order that the scripts take them. */
export function recordKeys(name: RequestName): [string, string, string] {
  const stem = recordStem(name);
  return [`${stem}:rec`, `${stem}:body`, `${stem}:res`];
}

/** Where bytes of a request wait for the script that takes them. */
export function uploadKey(name: RequestName, token: string): string {
  return `${recordStem(name)}:up:${token}`;
}

function recordStem({ tenant, id }: RequestName): string {
  return `ab:{${tenantPart(tenant)}~${id}}`;
}

/** Where an `Idempotency-Key` points; the key itself may be any text of any length. */
export function idempotencyKey(tenant: string, key: string): string {
  const digest = createHash('sha256').update(key).digest('base64url');
  return `ab:{${tenantPart(tenant)}~~${digest}}:idem`;
}

/** A request in an open set or a message. */
export function memberOf({ tenant, id, generation }: RequestRef): string {
  return `${tenantPart(tenant)}~${id}~${generation}`;
}

/** The reverse of `memberOf`; undefined for a text that it never makes. */
export function parseMember(member: string): RequestRef | undefined {
  const [part = '', id = '', generation = '', ...rest] = member.split('~');
  if (part === '' || id === '' || generation === '' || rest.length > 0) {
    return undefined;
  }
  return { tenant: Buffer.from(part, 'base64url').toString('utf8'), id, generation };
}

/**
 * The job of a ticket. The prefix keeps clients' ids away from BullMQ's own key names, from its ban of numbers and from
 * its rules for colons; the generation keeps a new run away from a retained job of an old one.
 */
export function jobIdOf(ref: RequestRef): string {
  return `r~${memberOf(ref)}`;
}

/** The reverse of `jobIdOf`. */
export function parseJobId(jobId: string, lane: string): Ticket | undefined {
  const ref = jobId.startsWith('r~') ? parseMember(jobId.slice(2)) : undefined;
  return ref && { ...ref, lane };
}

/** BullMQ's prefix: the tag keeps a lane on one node. */
export function lanePrefix(lane: string): string {
  return `{ab:${lane}}`;
}

/** Every request of the lane without an outcome: member, by deadline. */
export function laneOpenKey(lane: string): string {
  return `{ab:${lane}}:open`;
}

/** Where the lane's order begins (4.5). */
export function laneAnchorKey(lane: string): string {
  return `{ab:${lane}}:edf`;
}

/** Written to see whether the lane's node takes writes. */
export function laneProbeKey(lane: string): string {
  return `{ab:${lane}}:probe`;
}

/** What an operator lets through. */
export function gateKey(lane: string): string {
  return `ab:gate:${lane}`;
}

/** Every request of the tenant without an outcome: lane and member, by deadline. */
export function tenantOpenKey(tenant: string): string {
  return `ab:{${tenantPart(tenant)}}:open`;
}

/** Upstream's counter of a tenant. */
export function quotaCounterKey(attribute: string, tenant: string): string {
  return `quota:${attribute}:${tenant}`;
}

/** The tenant's leases: token, by end. */
export function quotaKey(tenant: string): string {
  return `ab:quota:{userid~${tenantPart(tenant)}}`;
}
