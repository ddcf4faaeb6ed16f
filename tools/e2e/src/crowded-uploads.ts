import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './ask.ts';
import { addressOf, runCoordinator } from './coordinator-process.ts';
import { FastWorker } from './fast-worker.ts';
import { memoryOf } from './memory-of.ts';

const megabyte = 1024 * 1024;

/** How many clients upload at once, and how much the coordinator may hold. */
export interface UploadsOptions {
  readonly uploads: number;
  readonly bodyMegabytes: number;
  readonly heldMegabytes: number;
  /** Whether those that are refused come back until they are served. */
  readonly comesBack: boolean;
}

/** What a crowd of uploads costs. */
export interface UploadsFigures {
  /** Uploads that were served in the end. */
  readonly served: number;
  /** Times that one was told to come back, with the code of the refusal and `Retry-After`. */
  readonly refusals: number;
  /** Answers that were neither. */
  readonly others: readonly string[];
  /** Most bodies that were on their way to the worker at once. */
  readonly mostAtOnce: number;
  /** Growth of the coordinator's peak memory. */
  readonly grownBytes: number;
}

/** Many clients that send large bodies at once, and come back when they are told to. */
export async function crowdedUploads(options: UploadsOptions): Promise<UploadsFigures> {
  const { uploads, bodyMegabytes, heldMegabytes, comesBack } = options;
  const worker = new FastWorker(0);
  const coordinator = runCoordinator({
    server: {
      listen_addr: '127.0.0.1:0',
      metrics_port: 0,
      // On a busy machine a body may be minutes on its way.
      read_timeout: '10m',
      write_timeout: '10m',
      max_request_body_size: bodyMegabytes,
      max_body_bytes_held: heldMegabytes,
    },
    gateway: { address: await worker.start(), timeout: '10m' },
    pipeline: { kv_connector: 'kv-nixl', steps: [{ type: 'decode' }] },
  });
  try {
    const url = await addressOf(coordinator);
    await ask(url, { path: '/v1/completions', body: { model: 'm', prompt: 'x' } });
    const idleBytes = memoryOf(coordinator.pid, 'VmRSS');
    const body = Buffer.alloc(bodyMegabytes * megabyte, 'x');
    body.write('{"model":"m","prompt":"');
    body.write('"}', body.length - 2);
    let refusals = 0;
    const untilServed = async (): Promise<string | undefined> => {
      for (;;) {
        const answer = await upload(url, body);
        if (!/^HTTP\/1.1 503 [^]*retry-after: 1\r\n[^]*BODY_MEMORY_FULL/.test(answer))
          return answer;
        refusals += 1;
        if (!comesBack) return undefined;
        // As the answer says, and not all at the same moment.
        await sleep(500 + Math.random() * 1_000);
      }
    };
    const ends = await Promise.all(Array.from({ length: uploads }, untilServed));
    const answers = ends.filter((answer) => answer !== undefined);
    const others = answers.filter((answer) => !answer.startsWith('HTTP/1.1 200 '));
    return {
      served: answers.length - others.length,
      refusals,
      others,
      mostAtOnce: worker.mostAtOnce,
      grownBytes: memoryOf(coordinator.pid, 'VmHWM') - idleBytes,
    };
  } finally {
    worker.close();
    coordinator.signal('SIGKILL');
    await coordinator.exited;
  }
}

/** Sends a body until it is whole or an answer comes; resolves with everything that came back. */
async function upload(url: string, body: Buffer): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
  let answer = '';
  let goOn = (): void => undefined;
  socket.on('data', (piece: string) => {
    answer += piece;
    goOn();
  });
  socket.on('drain', () => goOn()).on('error', () => undefined);
  const closed = once(socket, 'close').then(() => goOn());
  socket.write(
    'POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n' +
      `content-length: ${body.length}\r\n\r\n`,
  );
  for (let i = 0; i < body.length && answer === ''; i += 262_144) {
    if (!socket.write(body.subarray(i, i + 262_144))) {
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
    }
    if (socket.destroyed) break;
  }
  if (answer !== '') socket.end();
  await closed;
  return answer;
}
