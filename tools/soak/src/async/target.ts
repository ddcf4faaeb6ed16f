import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { type Answered, type Journal, type Ran } from './journal.ts';
import { firstOrdered } from './soak-form.ts';

/** Plays the model servers behind a coordinator. */
export interface Target {
  readonly url: string;
  readonly runs: number;
  close(): void;
}

const [shortestMs, longestMs] = [5, 80];
/** Of a hundred calls: what a busy gateway turns away. */
const busyPercent = 2;

/**
 * Answers every call with the number of its run, so that two runs of one request can be told apart, and notes each, and each
 * answer. A few calls are turned away with 503, but none of those whose order counts.
 */
export async function startTarget(ran: Journal, answered: Journal): Promise<Target> {
  let runs = 0;
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('error', () => {});
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString('utf8');
      const n = Number(/"prompt":"soak (\d+)/.exec(text)?.[1] ?? Number.NaN);
      const run = (runs += 1);
      ran.write({ at: Date.now(), n } satisfies Ran);
      const isBusy = n < firstOrdered && Math.random() * 100 < busyPercent;
      const body = JSON.stringify(isBusy ? { error: { message: 'busy' } } : answerOf(n, run));
      setTimeout(
        () => {
          if (!isBusy) answered.write({ at: Date.now(), n } satisfies Answered);
          response.writeHead(isBusy ? 503 : 200, { 'content-type': 'application/json' }).end(body);
        },
        shortestMs + Math.random() * (longestMs - shortestMs),
      );
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get runs() {
      return runs;
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function answerOf(n: number, run: number): object {
  return {
    id: `cmpl-${run}`,
    object: 'text_completion',
    created: 0,
    model: 'm',
    choices: [{ index: 0, text: `${n} ran as ${run}`, finish_reason: 'stop', logprobs: null }],
    usage: { prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 },
  };
}
