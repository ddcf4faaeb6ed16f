import { setTimeout as sleep } from 'node:timers/promises';
import { type Dispatcher } from 'undici';

/** What one request was like for its client. */
export interface Experience {
  /** A status, `left` when the client did, `error event`, `cut`, or the code of a failure. */
  readonly result: string;
  /** From the moment that the request was due to the first byte of its answer's body; absent without one. */
  readonly firstMs?: number;
  /** From that moment to the end. */
  readonly wholeMs: number;
  /** Between two chunks. */
  readonly gapsMs: readonly number[];
}

/** Sends `rate` requests a second, whatever becomes of them: who is slow gets no fewer. Resolves when all have ended. */
export async function openLoop<T>(
  { rate, seconds }: { readonly rate: number; readonly seconds: number },
  send: (index: number, dueAt: number) => Promise<T>,
): Promise<T[]> {
  const startedAt = performance.now();
  const count = Math.round(rate * seconds);
  const running: Promise<T>[] = [];
  while (running.length < count) {
    const dueAt = startedAt + (running.length * 1_000) / rate;
    const early = dueAt - performance.now();
    if (early > 0) await sleep(early);
    running.push(send(running.length, dueAt));
  }
  return Promise.all(running);
}

/** Posts a chat request and reads the answer as it comes; a client that `leavesAfter` so many chunks closes then. */
export async function askChat(
  dispatcher: Dispatcher,
  { origin, body, dueAt, leavesAfter }: ChatQuestion,
): Promise<Experience> {
  const gapsMs: number[] = [];
  let firstMs: number | undefined;
  const end = (result: string): Experience => ({
    ...{ result, gapsMs, wholeMs: performance.now() - dueAt },
    ...(firstMs === undefined ? {} : { firstMs }),
  });
  try {
    const answer = await dispatcher.request({
      ...{ origin, path: '/v1/chat/completions', method: 'POST', body },
      headers: { 'content-type': 'application/json', 'content-length': String(body.length) },
    });
    const isStream = String(answer.headers['content-type']).startsWith('text/event-stream');
    let [chunks, last, tail] = [0, 0, ''];
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      const now = performance.now();
      if (chunks === 0) firstMs = now - dueAt;
      else gapsMs.push(now - last);
      [chunks, last, tail] = [chunks + 1, now, chunk.toString('latin1').slice(-4_000)];
      // Leaving the loop closes the connection.
      if (chunks === leavesAfter) return end('left');
    }
    if (answer.statusCode !== 200 || !isStream) return end(String(answer.statusCode));
    if (tail.includes('data: {"error"')) return end('error event');
    return end(tail.includes('data: [DONE]') ? '200' : 'cut');
  } catch (error) {
    return end(error instanceof Error && 'code' in error ? String(error.code) : 'failed');
  }
}

/** One request of `askChat`. */
export interface ChatQuestion {
  readonly origin: string;
  readonly body: Buffer;
  /** When it was due, by `performance.now()`. */
  readonly dueAt: number;
  readonly leavesAfter?: number | undefined;
}

/** The value below which a share of the figures lies; NaN of none. */
export function quantile(figures: readonly number[], share: number): number {
  const sorted = figures.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? NaN;
}
