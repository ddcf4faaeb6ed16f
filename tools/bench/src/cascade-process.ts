import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

const startMs = 20_000;
const pollMs = 50;

/** Cores by use: the processes under test alone on one, load and stub on the other. */
export const cores = { load: '0', tested: '1' } as const;

/** Puts this process on its core; false when the machine has no `taskset` or only one core. */
export function pinLoad(): boolean {
  if (availableParallelism() < 2) return false;
  try {
    execFileSync('taskset', ['-a', '-c', '-p', cores.load, String(process.pid)]);
    return true;
  } catch {
    return false;
  }
}

/** A port of the loopback that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** A cascade under test, in a process group of its own. */
export class CascadeProcess {
  readonly name: string;
  readonly pool: Pool;
  readonly #child: ChildProcess;
  readonly #kill = (): void => this.#signal('SIGKILL');
  #output = '';

  private constructor(name: string, child: ChildProcess, port: number) {
    this.name = name;
    this.#child = child;
    this.pool = new Pool(`http://127.0.0.1:${port}`, { connections: null, pipelining: 1 });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => (this.#output = (this.#output + String(chunk)).slice(-4000)));
    }
    process.once('exit', this.#kill);
  }

  /** Starts a command and resolves when its port answers. */
  static async start(
    name: string,
    command: string,
    port: number,
    isPinned: boolean,
    readyPath = '/healthz',
  ): Promise<CascadeProcess> {
    const words = isPinned ? ['taskset', '-c', cores.tested] : [];
    const [program = '', ...args] = [...words, '/bin/sh', '-c', `exec ${command}`];
    const child = spawn(program, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const started = new CascadeProcess(name, child, port);
    try {
      await started.#ready(readyPath);
    } catch (error) {
      await started.stop();
      throw error;
    }
    return started;
  }

  /** The process whose CPU time counts, with its descendants. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Ends the process and waits for it. */
  async stop(): Promise<void> {
    process.off('exit', this.#kill);
    await this.pool.close();
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exit = once(this.#child, 'exit');
      this.#signal('SIGTERM');
      await exit;
    }
  }

  async #ready(path: string): Promise<void> {
    const end = Date.now() + startMs;
    while (Date.now() < end && this.#child.exitCode === null) {
      try {
        const { statusCode, body } = await this.pool.request({ method: 'GET', path });
        await body.dump();
        if (statusCode === 200) return;
      } catch {
        // It does not listen yet.
      }
      await sleep(pollMs);
    }
    throw new Error(`${this.name} did not start:\n${this.#output}`);
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.pid, signal);
    } catch {
      // It has ended.
    }
  }
}
