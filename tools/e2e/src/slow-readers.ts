import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@llm-d/soak';
import { ask } from './ask.ts';
import { addressOf, runCoordinator } from './coordinator-process.ts';
import { FastWorker } from './fast-worker.ts';
import { memoryOf } from './memory-of.ts';

/** How many readers there are, how long they read, and how much they are sent. */
export interface SlowReadersOptions {
  readonly readers: number;
  /** Length of each answer, beyond what the system buffers of it. */
  readonly answerBytes: number;
  readonly seconds: number;
}

/** What a crowd of slow readers costs. */
export interface SlowReadersFigures {
  /** Most bytes that the system buffers between the worker and a client. */
  readonly systemBytes: number;
  /** Most bytes that the worker wrote for a stream beyond what its client took. */
  readonly mostAheadBytes: number;
  /** Growth of the coordinator's peak memory, for all readers. */
  readonly grownBytes: number;
  /** Readers whose stream broke. */
  readonly broken: number;
  /** Slowest of the short requests of another client while the readers read. */
  readonly slowestOtherMs: number;
}

const readsPerSecond = 4;
/** 2 KB a second. */
const bytesPerRead = 2_048 / readsPerSecond;
const short = { path: '/v1/completions', body: { model: 'm', prompt: 'x' } };

/** The most that this system buffers of two connections. */
export function mostBuffered(): number {
  const most = (direction: 'rmem' | 'wmem'): number =>
    Number(readFileSync(`/proc/sys/net/ipv4/tcp_${direction}`, 'utf8').split(/\s+/)[2]);
  return 2 * (most('rmem') + most('wmem'));
}

/** C09: clients that read 2 KB a second, and a worker that writes as fast as it may. */
export async function slowReaders(options: SlowReadersOptions): Promise<SlowReadersFigures> {
  const { readers, answerBytes, seconds } = options;
  const systemBytes = mostBuffered();
  const worker = new FastWorker(systemBytes + answerBytes);
  const coordinator = runCoordinator({
    server: { listen_addr: '127.0.0.1:0', metrics_port: 0 },
    // Shorter than a worker is held back by its reader.
    gateway: { address: await worker.start(), stream_idle_timeout: '2s' },
    pipeline: { kv_connector: 'kv-nixl', steps: [{ type: 'decode' }] },
  });
  const open: SlowReader[] = [];
  try {
    const url = await addressOf(coordinator);
    for (let i = 0; i < 20; i += 1) await ask(url, short);
    const idleBytes = memoryOf(coordinator.pid, 'VmRSS');
    open.push(...Array.from({ length: readers }, (_, i) => new SlowReader(url, `slow-${i}`)));
    await until('every stream', () => (worker.written.size === readers ? true : undefined), 60_000);

    // First all buffers on the way fill; only then is everything at rest but for what is read.
    let before = -1;
    for (let now = worker.writtenBytes; now > before; now = worker.writtenBytes) {
      before = now;
      await sleep(1_000);
    }
    const reading = setInterval(() => {
      for (const reader of open) reader.read();
    }, 1_000 / readsPerSecond);
    const end = performance.now() + seconds * 1_000;
    let slowestOtherMs = 0;
    while (performance.now() < end) {
      const start = performance.now();
      const { status } = await ask(url, short);
      if (status !== 200) throw new Error(`another client got ${status}`);
      slowestOtherMs = Math.max(slowestOtherMs, performance.now() - start);
      await sleep(50);
    }
    clearInterval(reading);
    return {
      systemBytes,
      mostAheadBytes: Math.max(
        ...open.map(({ id, takenBytes }) => (worker.written.get(id) ?? 0) - takenBytes),
      ),
      grownBytes: memoryOf(coordinator.pid, 'VmHWM') - idleBytes,
      broken: open.filter(({ isBroken }) => isBroken).length,
      slowestOtherMs,
    };
  } finally {
    for (const reader of open) reader.close();
    worker.close();
    coordinator.signal('SIGKILL');
    await coordinator.exited;
  }
}

/** A client that takes a few bytes at a time from its socket; what it has not taken stays in the system. */
class SlowReader {
  readonly id: string;
  readonly #socket: Socket;
  takenBytes = 0;
  isBroken = false;

  constructor(url: string, id: string) {
    this.id = id;
    const body = '{"model":"m","stream":true,"prompt":"x"}';
    this.#socket = connect({
      port: Number(new URL(url).port),
      host: '127.0.0.1',
      onread: {
        buffer: Buffer.alloc(bytesPerRead),
        callback: (bytes) => {
          this.takenBytes += bytes;
          return false;
        },
      },
    });
    this.#socket.once('close', () => (this.isBroken = true)).on('error', () => undefined);
    this.#socket.write(
      `POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-request-id: ${id}\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
  }

  /** Takes the next bytes. */
  read(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.destroy();
  }
}
