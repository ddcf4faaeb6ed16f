import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const pollMs = 50;

const script = fileURLToPath(new URL('../../../apps/coordinator/dist/main.js', import.meta.url));

/** The built coordinator as a child, with eyes on what it holds. */
export class CoordinatorChild {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #directory: string;

  private constructor(child: ChildProcess, directory: string, url: string) {
    this.#child = child;
    this.#directory = directory;
    this.url = url;
  }

  /**
   * Starts it and waits until it answers; every log line goes to `onLine`. Rejects with the last output when it ends
   * before.
   */
  static async start(
    config: (port: number) => object,
    onLine: (line: string) => void,
  ): Promise<CoordinatorChild> {
    const directory = mkdtempSync(join(tmpdir(), 'soak-coordinator-'));
    const file = join(directory, 'coordinator.yaml');
    const port = await freePort();
    // JSON is valid YAML.
    writeFileSync(file, JSON.stringify(config(port)));
    const child = spawn(process.execPath, [script, '--config', file], {
      env: { ...process.env, FORCE_COLOR: undefined },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const started = new CoordinatorChild(child, directory, `http://127.0.0.1:${port}`);
    let [output, rest] = ['', ''];
    const read = (piece: Buffer): void => {
      const lines = (rest + piece.toString()).split('\n');
      rest = lines.pop() ?? '';
      output = `${output}${lines.join('\n')}\n`.slice(-4000);
      lines.forEach(onLine);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    while (!(await started.#answers())) {
      if (started.hasEnded) throw new Error(`the coordinator did not start:\n${output}`);
      await sleep(pollMs);
    }
    return started;
  }

  /** Whether it has ended although nobody asked it to. */
  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get residentMb(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024;
  }

  /** Open files and sockets. */
  get openFiles(): number {
    return readdirSync(`/proc/${this.#child.pid}/fd`).length;
  }

  /** Asks it to end; resolves with the exit code. */
  async stop(): Promise<number | null> {
    if (!this.hasEnded) {
      const exit = once(this.#child, 'exit');
      this.#child.kill('SIGTERM');
      await exit;
    }
    rmSync(this.#directory, { recursive: true, force: true });
    return this.#child.exitCode;
  }

  async #answers(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/healthz`)).ok;
    } catch {
      return false;
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
