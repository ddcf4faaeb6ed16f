import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { type Journal, type Ordered, type Told } from './journal.ts';
import { firstOrdered, orderedTimeouts } from './soak-form.ts';

/** Whom the clients talk to, and where they note what they were told. */
export interface SoakClientsOptions {
  readonly url: string;
  readonly journal: Journal;
  readonly timeoutSeconds: number;
}

type Says = Pick<Told, 'status' | 'says' | 'hash' | 'code'>;

const pollMs = 400;
/** After a call that said nothing; clients that come back at once would be a fault of their own. */
const retryMs = 1_000;
/** A call that is not held. */
const callLimitMs = 10_000;
/** Clients give up this long after the deadline: the audit then sees a request without an end. */
const patienceMs = 25_000;

/** Failures that say nothing of the request. */
const passing = new Set([
  ...['ENQUEUE_FAILED', 'LOOKUP_FAILED', 'DELETE_FAILED', 'SHUTTING_DOWN', 'BACKLOG_FULL'],
  ...['TENANT_BACKLOG_FULL', 'TOO_MANY_REQUESTS', 'QUEUE_TIMEOUT', 'BODY_MEMORY_FULL'],
  ...['WAITS_FULL', 'BODY_BYTES_FULL'],
]);

/**
 * Clients as they should be: they name their requests, repeat what got no answer, fetch until there is an outcome, and note
 * everything that they are told.
 */
export class SoakClients {
  readonly #options: SoakClientsOptions;
  readonly #agent = new Agent({ connections: 512, pipelining: 1 });
  readonly #open = new Set<Promise<void>>();
  #count = 0;

  constructor(options: SoakClientsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  /** Begins one request; its kind depends on its number. */
  begin(): void {
    const n = (this.#count += 1);
    this.#follow(this.#play(n));
  }

  #follow(playing: Promise<void>): void {
    const running = playing.finally(() => this.#open.delete(running));
    this.#open.add(running);
  }

  /** Enqueues those whose order counts, one after the other. */
  async enqueueOrdered(journal: Journal): Promise<void> {
    for (const [index, timeoutSeconds] of orderedTimeouts.entries()) {
      const n = firstOrdered + index;
      const enqueue = () => this.#tell(n, 'post', this.#post(n, 'enqueue', '', timeoutSeconds));
      while ((await enqueue()).says !== 'pending') await sleep(pollMs);
      journal.write({ n, timeoutSeconds } satisfies Ordered);
    }
  }

  /** Begins to fetch what they became. */
  fetchOrdered(): void {
    for (const index of orderedTimeouts.keys()) this.#follow(this.#outcome(firstOrdered + index));
  }

  /** Resolves when all of them have an end. */
  async settled(): Promise<void> {
    await Promise.all(this.#open);
    await this.#agent.destroy();
  }

  async #play(n: number): Promise<void> {
    const kind = n % 20;
    if (kind < 5) await this.#wait(n);
    else if (kind < 7) await this.#deleted(n);
    else if (kind < 9) await this.#twice(n);
    else await this.#fetched(n, kind === 9);
  }

  /** Enqueues and fetches, then once more: an outcome does not change. */
  async #fetched(n: number, isWatched: boolean): Promise<void> {
    if (!(await this.#accepted(n))) return;
    if (isWatched) await this.#tell(n, 'foreign-get', this.#get(n, 'somebody-else'));
    await this.#outcome(n);
    await sleep(200);
    await this.#tell(n, 'get', this.#get(n));
  }

  /** The same request twice at once, and another body under its name. */
  async #twice(n: number): Promise<void> {
    const both = await Promise.all([this.#accepted(n), this.#accepted(n)]);
    if (!both.every(Boolean)) return;
    await this.#tell(n, 'other-body', this.#post(n, 'enqueue', 'another body'));
    await this.#outcome(n);
  }

  async #wait(n: number): Promise<void> {
    const end = this.#end();
    while (Date.now() < end) {
      const { says } = await this.#tell(n, 'wait', this.#post(n, 'wait'));
      if (says === 'outcome') return;
      await sleep(retryMs);
    }
  }

  async #deleted(n: number): Promise<void> {
    if (!(await this.#accepted(n))) return;
    await sleep(Math.random() * 400);
    const end = this.#end();
    while (Date.now() < end) {
      const { says } = await this.#tell(n, 'delete', this.#byId(n, 'DELETE'));
      if (says === 'done') break;
      await sleep(retryMs);
    }
    await sleep(500);
    await this.#tell(n, 'get', this.#get(n));
  }

  async #accepted(n: number): Promise<boolean> {
    const end = this.#end();
    while (Date.now() < end) {
      const { says } = await this.#tell(n, 'post', this.#post(n, 'enqueue'));
      if (says === 'pending') return true;
      await sleep(retryMs);
    }
    return false;
  }

  async #outcome(n: number): Promise<void> {
    const end = this.#end();
    while (Date.now() < end) {
      await sleep(pollMs);
      const { says } = await this.#tell(n, 'get', this.#get(n));
      if (says === 'outcome' || says === 'gone') return;
      if (says === 'refused') await sleep(retryMs);
    }
  }

  #end(): number {
    return Date.now() + this.#options.timeoutSeconds * 1000 + patienceMs;
  }

  async #tell(n: number, call: Told['call'], asking: Promise<Says>): Promise<Says> {
    const since = Date.now();
    const told = await asking;
    this.#options.journal.write({ at: Date.now(), since, n, call, ...told } satisfies Told);
    return told;
  }

  #post(
    n: number,
    mode: string,
    words = '',
    timeoutSeconds = this.#options.timeoutSeconds,
  ): Promise<Says> {
    const body = JSON.stringify({ model: 'm', prompt: `soak ${n} ${words}`, max_tokens: 4 });
    return this.#ask('POST', '/v1/completions', tenantOf(n), {
      body,
      limitMs: mode === 'wait' ? timeoutSeconds * 1000 + callLimitMs : callLimitMs,
      headers: {
        'content-type': 'application/json',
        'x-llm-d-async-mode': mode,
        'x-request-id': idOf(n),
        'x-llm-d-request-timeout-seconds': String(timeoutSeconds),
      },
    });
  }

  #get(n: number, tenant = tenantOf(n)): Promise<Says> {
    return this.#byId(n, 'GET', tenant);
  }

  #byId(n: number, method: 'GET' | 'DELETE', tenant = tenantOf(n)): Promise<Says> {
    return this.#ask(method, `/v1/requests/${idOf(n)}`, tenant, { limitMs: callLimitMs });
  }

  async #ask(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    tenant: string,
    more: { body?: string; headers?: Record<string, string>; limitMs: number },
  ): Promise<Says> {
    const { body, headers, limitMs } = more;
    try {
      const answer = await request(this.#options.url + path, {
        method,
        dispatcher: this.#agent,
        headers: { 'x-llm-d-tenant': tenant, ...headers },
        ...(body !== undefined && { body }),
        headersTimeout: limitMs,
        bodyTimeout: limitMs,
      });
      return interpret(answer.statusCode, await answer.body.text());
    } catch {
      return { status: 0, says: 'refused' };
    }
  }
}

function interpret(status: number, text: string): Says {
  const code = /"code":"([A-Z_]+)"/.exec(text)?.[1];
  const about = { status, ...(code !== undefined && { code }) };
  if (status === 202) return { ...about, says: 'pending' };
  if (status === 204) return { ...about, says: 'done' };
  if (code === 'UNKNOWN_REQUEST') return { ...about, says: 'gone' };
  if (status === 409 || (code !== undefined && passing.has(code)))
    return { ...about, says: 'refused' };
  // An error object names the call that it answers; its code is what must not change.
  const what = code === undefined ? `${status} ${text}` : `${status} ${code}`;
  const hash = createHash('sha256').update(what).digest('base64url').slice(0, 16);
  return { ...about, says: 'outcome', hash };
}

function idOf(n: number): string {
  return `soak-${n}`;
}

function tenantOf(n: number): string {
  return n < firstOrdered ? `team-${n % 3}` : 'ordered';
}
