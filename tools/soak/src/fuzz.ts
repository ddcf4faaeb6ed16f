import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { askRaw } from './ask-raw.ts';
import { CoordinatorChild } from './coordinator-child.ts';
import { goodRequests } from './fuzz-bodies.ts';
import { FuzzUpstream } from './fuzz-upstream.ts';
import { mutateBody } from './mutate-body.ts';
import { rawRequest } from './mutate-headers.ts';
import { Random } from './random.ts';

/** How much is tried; it ends with whichever limit is reached first. */
export interface FuzzOptions {
  readonly count: number;
  readonly seconds: number;
  /** The same seed makes the same requests. */
  readonly seed: number;
}

/** What came of it. */
export interface FuzzResult {
  readonly requests: number;
  /** Legs that reached the upstream. */
  readonly legs: number;
  readonly byStatus: Readonly<Record<string, number>>;
  /** Resident memory after a fifth of the requests, and at the end. */
  readonly residentMb: readonly [early: number, late: number];
  /** What must not happen, with the number of the request where it has one; empty when all is well. */
  readonly faults: readonly string[];
}

const parallel = 16;
const rawPercent = 30;
const readTimeoutMs = 1000;
const answerLimitMs = 15_000;
/** Faults that are kept: the first ones tell enough. */
const maxFaults = 20;
/** Growth of the resident memory that garbage and caches explain. */
const maxGrowthMb = 96;

const configFor =
  (upstream: string) =>
  (port: number): object => ({
    log_level: 1,
    server: {
      listen_addr: `127.0.0.1:${port}`,
      metrics_port: 0,
      read_timeout: `${readTimeoutMs}ms`,
      write_timeout: '10s',
      max_request_body_size: 1,
    },
    gateway: { address: upstream },
    pipeline: {
      ...{ kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' },
      steps: [
        // Nothing leaves this machine.
        { type: 'replace-media-urls', params: { allowed_domains: ['media.invalid'] } },
        { type: 'render', params: { address: upstream } },
        ...[
          { type: 'conditional-decode' },
          { type: 'encode' },
          { type: 'prefill' },
          { type: 'decode' },
        ],
      ],
    },
  });

/** Sends mutated requests to a coordinator whose upstreams never fail. */
export async function fuzz({ count, seconds, seed }: FuzzOptions): Promise<FuzzResult> {
  const faults: string[] = [];
  const fault = (what: string): void => {
    if (faults.length < maxFaults) faults.push(what);
  };
  const upstream = new FuzzUpstream();
  upstream.onViolation = (what) => fault(`leg: ${what}`);
  const child = await CoordinatorChild.start(configFor(await upstream.start()), (line) => {
    if (/INTERNAL_ERROR|"level":"fatal"|[Uu]nhandled|Warning:/.test(line))
      fault(`log: ${line.slice(0, 600)}`);
  });
  const pool = new Pool(child.url, { connections: parallel, headersTimeout: answerLimitMs });
  const byStatus: Record<string, number> = {};
  const openFilesAtRest = child.openFiles;
  const end = performance.now() + seconds * 1000;
  let [next, earlyMb] = [0, 0];

  const worker = async (): Promise<void> => {
    while (
      next < count &&
      performance.now() < end &&
      !child.hasEnded &&
      faults.length < maxFaults
    ) {
      const number = next++;
      if (number === Math.floor(count / 5)) earlyMb = child.residentMb;
      const random = new Random(seed * 1_000_003 + number);
      const { path, body } = random.pick(goodRequests);
      const bytes = mutateBody(body, random);
      try {
        const status = random.percent(rawPercent)
          ? await tryRaw(child.url, path, bytes, random)
          : await tryBody(pool, path, bytes);
        byStatus[status] = (byStatus[status] ?? 0) + 1;
      } catch (error) {
        fault(`request ${number}: ${(error as Error).message}`);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: parallel }, worker));
    if (child.hasEnded) fault('the coordinator has ended');
    else {
      await pool.close();
      await checkRest(child, openFilesAtRest, fault);
      earlyMb ||= child.residentMb;
    }
    const residentMb: [number, number] = [earlyMb, child.hasEnded ? 0 : child.residentMb];
    if (residentMb[1] - earlyMb > maxGrowthMb) {
      fault(
        `resident memory grew from ${residentMb.map((mb) => `${mb.toFixed(0)} MB`).join(' to ')}`,
      );
    }
    const exitCode = await child.stop();
    if (exitCode !== 0) fault(`the coordinator ended with ${exitCode}`);
    return { requests: next, legs: upstream.legs, byStatus, residentMb, faults };
  } finally {
    await child.stop().catch(() => {});
    await pool.destroy();
    upstream.close();
  }
}

/** Connections of clients must be gone; those to the upstream may be kept. */
async function checkRest(
  child: CoordinatorChild,
  atRest: number,
  fault: (what: string) => void,
): Promise<void> {
  const mayBeKept = 3 * parallel;
  const limit = performance.now() + 5_000;
  while (child.openFiles > atRest + mayBeKept) {
    if (performance.now() > limit) {
      fault(`${child.openFiles} open files, ${atRest} at rest`);
      return;
    }
    await sleep(50);
  }
}

async function tryBody(pool: Pool, path: string, bytes: Buffer): Promise<number> {
  const { statusCode, headers, body } = await pool.request({
    ...{ method: 'POST', path, body: bytes },
    headers: { 'content-type': 'application/json' },
    bodyTimeout: answerLimitMs,
  });
  const answer = Buffer.from(await body.arrayBuffer());
  check(statusCode, headers['x-request-id'] !== undefined, answer);
  return statusCode;
}

async function tryRaw(url: string, path: string, bytes: Buffer, random: Random): Promise<number> {
  const raw = rawRequest(path, bytes, random);
  const { status, head, body } = await askRaw(url, raw, answerLimitMs);
  // Node closes such a connection where nobody makes tunnels; everything else gets an answer.
  const isTunnel = raw.head.toString('latin1').startsWith('CONNECT ');
  if (status === 0 && !isTunnel) throw new Error('closed without an answer');
  // Of a head that cannot be read, no id can be told; HEAD has no body.
  const own = ownBody(head, body);
  if (status >= 400 && own.length > 0) check(status, /\r\nx-request-id:/i.test(head), own);
  else if (status >= 500) throw new Error(`status ${status}`);
  return status;
}

/** Our own errors come with a length; after it the answer to what followed on the connection may stand. */
function ownBody(head: string, body: Buffer): Buffer {
  // After an answer to HEAD.
  if (body.toString('latin1', 0, 5) === 'HTTP/') return body.subarray(0, 0);
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  return length === undefined ? body : body.subarray(0, Number(length));
}

/** @throws Error when the answer is not what a client may get. */
function check(status: number, hasId: boolean, answer: Buffer): void {
  const text = answer.toString('utf8');
  if (status >= 500) throw new Error(`status ${status}: ${text.slice(0, 400)}`);
  if (status < 400) return;
  if (!hasId) throw new Error(`status ${status} without a request id: ${text.slice(0, 400)}`);
  const { error } = JSON.parse(text) as {
    error?: { message?: unknown; type?: unknown; code?: unknown };
  };
  for (const value of [error?.message, error?.type, error?.code]) {
    if (typeof value !== 'string' || value === '')
      throw new Error(`not an OpenAI error: ${text.slice(0, 400)}`);
  }
}
