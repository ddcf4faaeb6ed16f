import { randomUUID } from 'node:crypto';

/** Names one logical request. Ids are scoped by tenant everywhere: another tenant's id is an unknown id. */
export interface RequestName {
  /** As the client's header says it, UTF-8; `default` when it says nothing. */
  readonly tenant: string;
  readonly id: string;
}

/** One logical run of an id. An id that runs anew (after a DELETE, say) gets another generation. */
export interface RequestRef extends RequestName {
  /** 8 hex digits. */
  readonly generation: string;
}

/** What a lane's queue carries: where the record is, and nothing else. The record is the truth. */
export interface Ticket extends RequestRef {
  readonly lane: string;
}

const maxTenantBytes = 128;

/** Whether a text may name a request: 1 to 128 characters of `A–Z a–z 0–9 -` (async-broker.md 1.3). */
export function isRequestId(text: string): boolean {
  return /^[A-Za-z0-9-]{1,128}$/.test(text);
}

/** A random id. It is the only secret that protects a result among those who may set the tenant header. */
export function newRequestId(): string {
  return randomUUID();
}

/** What is wrong with a tenant, as the end of a sentence; undefined when nothing is (1.4, rule 5). */
export function tenantProblem(tenant: string): string | undefined {
  if (tenant === '') return 'is empty';
  if (tenant.includes(':')) return 'contains a colon';
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(tenant)) return 'contains a control character';
  if (!tenant.isWellFormed()) return 'is not valid Unicode';
  const bytes = Buffer.byteLength(tenant);
  return bytes > maxTenantBytes ? `has ${bytes} bytes, the limit is ${maxTenantBytes}` : undefined;
}

/** Whether a text may name a lane: 1 to 48 characters of `a–z 0–9 -`. */
export function isLaneName(text: string): boolean {
  return /^[a-z0-9-]{1,48}$/.test(text);
}
