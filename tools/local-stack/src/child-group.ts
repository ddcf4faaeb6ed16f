import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Lines of a failed child's log that are shown. */
const shownLines = 15;
const startLimitMs = 60_000;
const stopLimitMs = 8_000;

/** A program to run as a child. */
export interface ChildSpec {
  readonly name: string;
  /** A program; this Node when absent, which then runs `script`. */
  readonly program?: string;
  /** Built script; its name is left out for other programs. */
  readonly script?: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Answers 200 as soon as the child can be used; of a `tcp:` URL, takes connections. */
  readonly readyUrl: string;
}

/** A child that ended although nobody asked it to. */
export class ChildFailedError extends Error {
  override readonly name = 'ChildFailedError';
}

/** Child processes that live and end together, each with a log file. */
export class ChildGroup {
  readonly #logDirectory: string;
  readonly #children = new Map<string, ChildProcess>();
  readonly #failed = Promise.withResolvers<never>();
  #isStopping = false;

  constructor(logDirectory: string) {
    this.#logDirectory = logDirectory;
    mkdirSync(logDirectory, { recursive: true });
    // Only whoever waits for a failure is told of it.
    this.#failed.promise.catch(() => {});
  }

  /** Rejects with ChildFailedError when a child ends by itself; never resolves. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  logFile(name: string): string {
    return join(this.#logDirectory, `${name}.log`);
  }

  /** Process id of a running child. */
  pid(name: string): number | undefined {
    return this.#children.get(name)?.pid;
  }

  /** Starts children and waits until all are ready. @throws ChildFailedError with the last lines of the log. */
  async start(specs: readonly ChildSpec[]): Promise<void> {
    for (const spec of specs) this.#spawn(spec);
    await Promise.race([
      Promise.all(specs.map((spec) => this.#untilReady(spec))),
      this.#failed.promise,
    ]);
  }

  /** Ends one child as an operator would and waits for it. */
  async stop(name: string): Promise<void> {
    const child = this.#children.get(name);
    this.#children.delete(name);
    if (child) await end(child);
  }

  /** Ends all children: SIGTERM, after some seconds SIGKILL. */
  async stopAll(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#children.values()].map(end));
    this.#children.clear();
  }

  #spawn({ name, program = process.execPath, script, args, env }: ChildSpec): void {
    const log = openSync(this.logFile(name), 'w');
    const child = spawn(program, [...(script === undefined ? [] : [script]), ...args], {
      // Logs are for programs; Node warns in them when both colour variables are set, as nx does it.
      env: { ...process.env, FORCE_COLOR: undefined, ...env },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.#children.set(name, child);
    child.once('exit', (code, signal) => {
      if (this.#isStopping || this.#children.get(name) !== child) return;
      const lines = readFileSync(this.logFile(name), 'utf8').trimEnd().split('\n');
      const tail = lines.slice(-shownLines).join('\n  ');
      const how = signal ? `was ended by ${signal}` : `exited with ${code}`;
      this.#failed.reject(new ChildFailedError(`${name} ${how}; its last lines:\n  ${tail}`));
    });
  }

  async #untilReady({ name, readyUrl }: ChildSpec): Promise<void> {
    const limit = performance.now() + startLimitMs;
    while (!this.#isStopping) {
      if (await answers(readyUrl)) return;
      if (performance.now() > limit) {
        throw new ChildFailedError(`${name} was not ready after ${startLimitMs / 1000} s`);
      }
      await sleep(50);
    }
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    if (url.startsWith('tcp:')) {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      await once(socket, 'connect').finally(() => socket.destroy());
      return true;
    }
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopLimitMs);
  await gone;
  clearTimeout(timer);
}
