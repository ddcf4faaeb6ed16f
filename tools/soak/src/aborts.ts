import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Stack, startStack } from '@llm-d/local-stack';
import { Agent, request } from 'undici';
import { drawImages, question } from './abort-questions.ts';
import { leftovers, openSockets, type Rest, untilRest } from './abort-rest.ts';
import { type AbortSummary, AbortTimes } from './abort-times.ts';
import { startProxy, type Tampering } from './proxy.ts';
import { Random } from './random.ts';

/** How much is asked; it ends with whichever limit is reached first. */
export interface AbortOptions {
  readonly count: number;
  readonly seconds: number;
  /** The same seed asks the same and leaves at the same times. */
  readonly seed: number;
  /** Clients at the same time. */
  readonly clients?: number;
  /** What 99 of 100 legs must not exceed, from the client's close to their own. */
  readonly limitMs?: number;
}

/** What came of it. */
export interface AbortResult extends Rest {
  readonly requests: number;
  /** Requests that got their whole answer. */
  readonly served: number;
  /** Requests whose client left first. */
  readonly aborted: number;
  readonly aborts: AbortSummary;
  /** How late this process itself was (p99): times that are not much longer say nothing about the coordinator. */
  readonly ownLagMs: number;
  /** Sets whose prefill answer did not reach the coordinator: its client had left, and the leg was ended. */
  readonly unknown: number;
  /** Sets on a decode leg that was ended before it reached a worker. */
  readonly cutOnTheWay: number;
  readonly seconds: number;
  /** What must not happen; empty when all is well. */
  readonly faults: readonly string[];
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
/** Of 100 clients so many leave when prefill answers, so many at any time of their request; the others stay. */
const [atTheAnswerPercent, atAnyTimePercent] = [30, 50];
/** Somewhat longer than a request takes. */
const longestStayMs = 90;
/** Between two requests of a client: without pauses two cores have no rest, and every time is that of their queue. */
const longestPauseMs = 500;
/** Connections that are not used any more end soon, so that they do not hide ones that are. */
const idle = '1s';
/** Requests before the first client leaves. */
const warmUp = 20;
const lagResolutionMs = 5;
/** Surprises that are kept: the first ones tell enough. */
const maxSurprises = 20;

/** A client that leaves when prefill answers. */
interface Leaver {
  readonly leave: () => void;
  readonly random: Random;
}

/**
 * Sends requests of every API to a whole stack and lets most clients leave: at any time of their request, in the queue
 * or in the moment in which prefill answers. Waits until everything has come to rest, at most a lease and some seconds.
 */
export async function aborts(options: AbortOptions): Promise<AbortResult> {
  const { count, seconds, seed, clients = 16, limitMs = 100 } = options;
  const times = new AbortTimes();
  const leavers = new Map<string, Leaver>();
  const watched: Tampering = { ended: (call, end) => times.ended(call, end) };
  const stack = await startWatched(clients, watched, async ({ phase, requestId }) => {
    const leaver = phase === 'prefill' ? leavers.get(requestId) : undefined;
    if (!leaver) return;
    const { leave, random } = leaver;
    // Sometimes the answer is faster than the news that the client has left.
    if (random.percent(50)) leave();
    else setTimeout(leave, random.below(3_000) / 1000);
    await sleep(random.below(3_000) / 1000);
  });
  try {
    const images = await drawImages();
    const agent = new Agent();
    const pid = stack.children.pid('coordinator');
    const socketsBefore = openSockets(pid);
    const startedAt = performance.now();
    const counts = { served: 0, aborted: 0 };
    const surprises: string[] = [];

    const ask = async (number: number, isWarmUp = false): Promise<void> => {
      const random = new Random(seed * 1_000_003 + number);
      const { path, body } = question(number, random, images);
      const requestId = `soak-${seed}-${number}`;
      const client = new AbortController();
      const leave = (): void => {
        times.left(requestId);
        client.abort();
      };
      const kind = isWarmUp ? 100 : random.below(100);
      let timer: NodeJS.Timeout | undefined;
      if (kind < atTheAnswerPercent) leavers.set(requestId, { leave, random });
      else if (kind < atTheAnswerPercent + atAnyTimePercent)
        timer = setTimeout(leave, random.below(longestStayMs * 1000) / 1000);
      const surprise = (what: string): void => {
        if (surprises.length < maxSurprises) surprises.push(`request ${number} ${path}: ${what}`);
      };
      try {
        const answer = await request(stack.coordinatorUrl + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-request-id': requestId },
          body: JSON.stringify(body),
          signal: client.signal,
          dispatcher: agent,
        });
        const text = await answer.body.text();
        if (answer.statusCode === 200) counts.served += 1;
        else surprise(`${answer.statusCode} ${text.slice(0, 200)}`);
      } catch (error) {
        if (client.signal.aborted) counts.aborted += 1;
        else surprise(String(error));
      } finally {
        clearTimeout(timer);
        leavers.delete(requestId);
      }
    };
    // What a process does for the first time takes long, and it does nothing else meanwhile.
    for (let number = 0; number < warmUp; number++) await ask(count + number, true);
    const lag = monitorEventLoopDelay({ resolution: lagResolutionMs });
    lag.enable();
    let next = 0;
    const end = startedAt + seconds * 1000;
    const lane = async (number: number): Promise<void> => {
      const random = new Random(seed * 1_000_003 - number);
      while (next < count && performance.now() < end) {
        await ask(next++);
        await sleep(random.below(longestPauseMs));
      }
    };
    await Promise.all(Array.from({ length: clients }, (_, number) => lane(number)));
    lag.disable();
    await agent.close();

    const rest = await untilRest(stack, stack.openLegs, socketsBefore, leaseMs + 6_000);
    const { kv, leases } = rest;
    const granted = leases.held + leases.pulled + leases.released + leases.expired;
    const unknown = granted - kv.offered;
    const summary = times.summary();
    return {
      requests: warmUp + next,
      ...counts,
      aborts: summary,
      ownLagMs: Math.max(0, Math.round(lag.percentile(99) / 1e6 - lagResolutionMs)),
      ...rest,
      unknown,
      cutOnTheWay: leases.expired - kv.expired - unknown,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      faults: [...surprises, ...leftovers(rest), ...broken(rest, summary, limitMs)],
    };
  } finally {
    await stack.stop();
  }
}

/** Promises that were not kept on the way. */
function broken({ leases }: Rest, { legs, p99Ms }: AbortSummary, limitMs: number): string[] {
  const found: string[] = [];
  if (leases.pulledAgain > 0) found.push(`block sets fetched twice: ${leases.pulledAgain}`);
  if (leases.pulledLate > 0) found.push(`block sets fetched too late: ${leases.pulledLate}`);
  if (legs === 0) found.push('no leg was open when a client left');
  if (p99Ms > limitMs) found.push(`legs end ${p99Ms} ms after their client (p99)`);
  return found;
}

interface WatchedStack extends Stack {
  readonly openLegs: () => number;
}

/** A stack whose coordinator reaches render and gateway through proxies only. */
async function startWatched(
  clients: number,
  watched: Tampering,
  beforeAnswer: NonNullable<Tampering['beforeAnswer']>,
): Promise<WatchedStack> {
  const directory = mkdtempSync(join(tmpdir(), 'soak-aborts-'));
  // The coordinator is told where the proxies are before it is known what they stand before.
  const [render, gateway] = await Promise.all([
    startProxy('', watched, { isKeeping: false }),
    startProxy('', { ...watched, beforeAnswer }, { isKeeping: false }),
  ]);
  const closeAll = async (): Promise<void> => {
    await Promise.all([render.close(), gateway.close()]);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    const stack = await startStack({
      directory,
      workers: { encode: 1, prefill: 1, decode: 1 },
      workerEnv,
      coordinator: {
        // Some clients wait for their turn, and leave while they do.
        server: { max_concurrent_requests: Math.ceil(clients * 0.75), queue_timeout: '30s' },
        gateway: { address: gateway.url, idle_conn_timeout: idle },
        pipeline: {
          // Below the workers' own: a set that is sent has to arrive and to wait for its turn.
          kv_lease: `${leaseMs * 0.6}ms`,
          kv_release: 'decode',
          steps: [
            { type: 'replace-media-urls' },
            {
              type: 'render',
              params: { address: render.url, mm_payload: 'auto', idle_conn_timeout: idle },
            },
            { type: 'encode' },
            { type: 'prefill' },
            { type: 'decode' },
          ],
        },
      },
    });
    render.target = stack.renderUrl;
    gateway.target = stack.internalUrl;
    return {
      ...stack,
      openLegs: () => render.open + gateway.open,
      async stop() {
        await stack.stop();
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}
