import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '@llm-d/local-stack';
import { Agent, request } from 'undici';
import { drawImage, type TestImage } from './images.ts';
import { chatOf } from './prompts.ts';
import { startProxy } from './proxy.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';
import { until } from './until.ts';

/** How much is asked and how it goes wrong. */
export interface AbortSoakOptions {
  readonly count: number;
  /** Clients at the same time. */
  readonly clients?: number;
  /** Of the dice. */
  readonly seed?: number;
  /** Hears now and then how far it is. */
  readonly onProgress?: (done: number) => void;
}

/** Hand-offs as `GET /debug/handoffs` counts them, of all coordinators. */
export interface HandoffSums {
  readonly offered: number;
  readonly used: number;
  readonly released: number;
  readonly expired: number;
}

/** What a run found; a test says what of it must be zero. */
export interface AbortSoakReport {
  readonly requests: number;
  /** Requests that got their whole answer. */
  readonly served: number;
  /** Requests whose client left first. */
  readonly aborted: number;
  /** What became of the requests that are neither. */
  readonly surprises: readonly string[];
  readonly kv: HandoffSums;
  readonly ec: HandoffSums;
  /** Block sets of the prefill workers. */
  readonly leases: {
    readonly held: number;
    readonly pulled: number;
    readonly released: number;
    readonly expired: number;
    readonly pulledAgain: number;
    readonly pulledLate: number;
  };
  /** Sets whose prefill answer did not reach a coordinator: its client had left, and the leg was ended. */
  readonly unknown: number;
  /** Sets on a decode leg that was ended before it reached a worker. */
  readonly cutOnTheWay: number;
  /** Requests that workers still run, or let wait. */
  readonly running: number;
  /** Sockets that the coordinators have open beyond those of the start; undefined where that cannot be seen. */
  readonly sockets: number | undefined;
  readonly seconds: number;
}

const leaseMs = 6_000;
/** Decode pods answer a stream of so many tokens, prefill and encode take some milliseconds. */
const workerEnv = {
  SIM_KV_LEASE_MS: String(leaseMs),
  SIM_MODE: 'count',
  SIM_COUNT_TOKENS: '6',
  SIM_ENCODE_OVERHEAD_MS: '4',
  SIM_PREFILL_OVERHEAD_MS: '8',
  SIM_KV_TRANSFER_SETUP_MS: '3',
  SIM_ITL_MS: '3',
  SIM_JITTER_PCT: '50',
};
/** Connections that are not used any more end soon, so that they do not hide ones that are. */
const idle = '1s';
const imageCount = 8;
const progressEvery = 500;

/**
 * Sends requests of every API and lets most clients leave: at any time of their request, or in the moment in which
 * prefill answers. Waits until everything has come to rest, at most a lease.
 */
export async function runAbortSoak(options: AbortSoakOptions): Promise<AbortSoakReport> {
  const { count, clients = 24, seed = 1, onProgress } = options;
  const stack = await startTestStack({
    workers: onePodEach,
    workerEnv,
  });
  const leaving = new Map<string, () => void>();
  const random = dice(seed);
  const proxy = await startProxy(stack.internalUrl, {
    beforeAnswer: async ({ phase, requestId }) => {
      const leave = phase === 'prefill' ? leaving.get(requestId) : undefined;
      if (!leave) return;
      // Sometimes the answer is faster than the news that the client has left.
      if (random() < 0.5) leave();
      else setTimeout(leave, random() * 3);
      await sleep(random() * 3);
    },
  });
  try {
    const atAnyTime = await startDebugged(stack, 'at-any-time', stack.internalUrl);
    const atTheAnswer = await startDebugged(stack, 'at-the-answer', proxy.url);
    const debugUrls = [atAnyTime.debugUrl, atTheAnswer.debugUrl];
    const images = await Promise.all(Array.from({ length: imageCount }, (_, i) => drawImage(i)));
    const sockets = (): number | undefined => openSockets([atAnyTime.pid(), atTheAnswer.pid()]);
    const before = sockets();
    const startedAt = performance.now();
    const agent = new Agent();

    const counts = { served: 0, aborted: 0 };
    const surprises: string[] = [];
    const ask = async (index: number): Promise<void> => {
      const requestId = `soak-${seed}-${index}`;
      const client = new AbortController();
      const kind = random();
      const isAtTheAnswer = kind < 0.3;
      const url = (isAtTheAnswer ? atTheAnswer : atAnyTime).url;
      let timer: NodeJS.Timeout | undefined;
      if (isAtTheAnswer) leaving.set(requestId, () => client.abort());
      else if (kind < 0.8) timer = setTimeout(() => client.abort(), random() * 90);
      const { path, body } = question(index, random, images);
      try {
        const answer = await request(url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-request-id': requestId },
          body: JSON.stringify(body),
          signal: client.signal,
          dispatcher: agent,
        });
        const text = await answer.body.text();
        if (answer.statusCode === 200) counts.served += 1;
        else surprises.push(`${requestId} ${path}: ${answer.statusCode} ${text.slice(0, 200)}`);
      } catch (error) {
        if (client.signal.aborted) counts.aborted += 1;
        else surprises.push(`${requestId} ${path}: ${String(error)}`);
      } finally {
        clearTimeout(timer);
        leaving.delete(requestId);
      }
      if (index % progressEvery === progressEvery - 1) onProgress?.(index + 1);
    };
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < count) await ask(next++);
    };
    await Promise.all(Array.from({ length: clients }, lane));
    await agent.close();

    const rest = await untilRest(stack, debugUrls, sockets, before);
    const { kv, leases } = rest;
    const granted = leases.held + leases.pulled + leases.released + leases.expired;
    const unknown = granted - kv.offered;
    return {
      ...rest,
      ...counts,
      requests: count,
      surprises,
      unknown,
      cutOnTheWay: leases.expired - kv.expired - unknown,
      seconds: (performance.now() - startedAt) / 1000,
    };
  } finally {
    await stack.stop();
    await proxy.close();
  }
}

/** One more coordinator whose counts can be asked for. */
async function startDebugged(stack: TestStack, name: string, gatewayUrl: string) {
  const [port = 0] = await freePorts(1);
  const debugAddress = `127.0.0.1:${port}`;
  const render = { address: stack.renderUrl, mm_payload: 'auto', idle_conn_timeout: idle };
  const url = await stack.startCoordinator(name, {
    server: { debug_addr: debugAddress },
    gateway: { address: gatewayUrl, idle_conn_timeout: idle },
    pipeline: {
      // Below the workers' own: a set that is sent has to arrive and to wait for its turn.
      kv_lease: `${leaseMs * 0.6}ms`,
      steps: [
        { type: 'replace-media-urls' },
        { type: 'render', params: render },
        { type: 'encode' },
        { type: 'prefill' },
        { type: 'decode' },
      ],
    },
  });
  return { url, debugUrl: `http://${debugAddress}`, pid: () => stack.children.pid(name) };
}

type Rest = Pick<AbortSoakReport, 'kv' | 'ec' | 'leases' | 'running' | 'sockets'>;

/** Looks until nothing is in flight; after a lease and some seconds what is there is what is stranded. */
async function untilRest(
  stack: TestStack,
  debugUrls: readonly string[],
  sockets: () => number | undefined,
  before: number | undefined,
): Promise<Rest> {
  let seen: Rest | undefined;
  const look = async (): Promise<Rest | undefined> => {
    const [counts, states] = await Promise.all([
      Promise.all(debugUrls.map(countsOf)),
      stack.states(),
    ]);
    const open = sockets();
    seen = {
      kv: sum(counts.map(({ kv }) => kv['kv-nixl'] ?? none)),
      ec: sum(counts.map(({ ec }) => ec['ec-nixl'] ?? none)),
      leases: sum(states.map(({ leases }) => leases)),
      running: states.reduce((all, { running, waiting }) => all + running + waiting, 0),
      sockets: open === undefined || before === undefined ? undefined : Math.max(0, open - before),
    };
    const { kv, ec, leases, running, sockets: left = 0 } = seen;
    return [openOf(kv), openOf(ec), leases.held, running, left].every((n) => n === 0)
      ? seen
      : undefined;
  };
  try {
    return await until('rest', look, leaseMs + 6_000);
  } catch (error) {
    if (!seen) throw error;
    return seen;
  }
}

/** Hand-offs that have no outcome. */
export const openOf = ({ offered, used, released, expired }: HandoffSums): number =>
  offered - used - released - expired;

const none: HandoffSums = { offered: 0, used: 0, released: 0, expired: 0 };

type Counts = Record<'kv' | 'ec', Record<string, HandoffSums>>;

async function countsOf(debugUrl: string): Promise<Counts> {
  const { body } = await request(`${debugUrl}/debug/handoffs`, { reset: true });
  return (await body.json()) as Counts;
}

function sum<T extends object>(all: readonly T[]): T {
  const [first] = all;
  const names = Object.keys(first ?? {}) as (keyof T)[];
  return Object.fromEntries(
    names.map((name) => [name, all.reduce((total, one) => total + Number(one[name]), 0)]),
  ) as T;
}

/** Sockets of processes; undefined where the system does not show them. */
function openSockets(pids: readonly (number | undefined)[]): number | undefined {
  try {
    return pids.reduce((total: number, pid) => total + socketsOf(pid), 0);
  } catch {
    return undefined;
  }
}

function socketsOf(pid: number | undefined): number {
  const folder = `/proc/${pid}/fd`;
  const links = readdirSync(folder).map((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`);
    } catch {
      // Closed in the meantime.
      return '';
    }
  });
  return links.filter((link) => link.startsWith('socket:')).length;
}

/** A request of one of the APIs that nobody sent before. */
function question(
  index: number,
  random: () => number,
  images: readonly TestImage[],
): { path: string; body: object } {
  const text = `Question ${index} of the soak, with some words to fill more than one block of the cache.`;
  const stream = random() < 0.5;
  const kind = random();
  if (kind < 0.35) return { path: '/v1/chat/completions', body: chatOf(text, { stream }) };
  if (kind < 0.6) {
    const at = Math.floor(random() * images.length);
    const shown = images.slice(at, at + 1 + Math.floor(random() * 2));
    return { path: '/v1/chat/completions', body: chatOf(text, { images: shown, stream }) };
  }
  const model = 'sim/model';
  if (kind < 0.75) return { path: '/v1/completions', body: { model, prompt: text, stream } };
  if (kind < 0.85) return { path: '/v1/responses', body: { model, input: text, stream } };
  const ids = Array.from({ length: 40 }, (_, i) => 1000 + ((index * 40 + i) % 50_000));
  const sampling = { max_tokens: 6 };
  return {
    path: '/inference/v1/generate',
    body: { model, token_ids: ids, sampling_params: sampling, stream },
  };
}

/** The same numbers from 0 to 1 for the same seed (mulberry32). */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
