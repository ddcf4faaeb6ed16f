import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The built services that a soak starts. */
export type ServiceName = 'async-broker' | 'coordinator' | 'render-shim';

const pollMs = 20;
const probeLimitMs = 2_000;

/** A built service as a process that is killed and started again on the same port. */
export class ServiceProcess implements AsyncDisposable {
  /** `http://127.0.0.1:port`, the same after a restart. */
  readonly url: string;
  readonly #name: ServiceName;
  readonly #file: string;
  readonly #directory: string;
  readonly #onLine: (line: string) => void;
  #child: ChildProcess | undefined;

  private constructor(
    name: ServiceName,
    port: number,
    config: (port: number) => object,
    onLine: (line: string) => void,
  ) {
    this.#name = name;
    this.url = `http://127.0.0.1:${port}`;
    this.#onLine = onLine;
    this.#directory = mkdtempSync(join(tmpdir(), `${name}-`));
    this.#file = join(this.#directory, 'config.yaml');
    // JSON is valid YAML.
    writeFileSync(this.#file, JSON.stringify(config(port)));
  }

  /** Starts a service; `ready` resolves when it takes work. */
  static async start(
    name: ServiceName,
    config: (port: number) => object,
    onLine: (line: string) => void = () => {},
  ): Promise<ServiceProcess> {
    const service = new ServiceProcess(name, await freePort(), config, onLine);
    service.launch();
    return service;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts the process again after `kill` or `stop`. */
  launch(): void {
    const script = fileURLToPath(
      new URL(`../../../../apps/${this.#name}/dist/main.js`, import.meta.url),
    );
    const child = spawn(process.execPath, [script, '--config', this.#file], {
      // With both colour variables set, as nx does it, Node writes a warning first.
      env: { ...process.env, FORCE_COLOR: undefined },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let rest = '';
    const read = (piece: Buffer): void => {
      const lines = (rest + piece.toString()).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(this.#onLine);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    this.#child = child;
  }

  /** Resolves when `/readyz` says 200. @throws Error after a limit, or when the process has ended. */
  async ready(limitMs = 20_000): Promise<void> {
    const end = performance.now() + limitMs;
    while (!(await this.isReady())) {
      if (this.#hasEnded) throw new Error(`${this.#name} has ended`);
      if (performance.now() > end) throw new Error(`${this.#name} is not ready`);
      await sleep(pollMs);
    }
  }

  /** Whether `/readyz` says 200. */
  async isReady(): Promise<boolean> {
    return await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(probeLimitMs) }).then(
      (answer) => answer.status === 200,
      () => false,
    );
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  /** Ends it at once, frozen or not. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Asks it to end; resolves with the exit code. */
  stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  get #hasEnded(): boolean {
    return this.#child?.exitCode !== null || this.#child.signalCode !== null;
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (!child || this.#hasEnded) return child?.exitCode ?? null;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
    return child.exitCode;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
