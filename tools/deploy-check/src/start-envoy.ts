import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type EnvoyConfig } from './envoy-config.ts';
import { programPath } from './programs.ts';

const run = promisify(execFile);
const startLimitMs = 30_000;
/** Envoy keeps lines of its access log back; its default is 10 s. */
const logFlushMs = 50;

/** One line of the access log, as deploy/envoy writes it. */
export interface AccessLine {
  readonly leg: 'client' | 'phase';
  readonly path: string;
  readonly status: number;
  readonly flags: string;
  readonly request_id: string | null;
  readonly profile?: string;
  readonly upstream?: string | null;
}

/** A running Envoy. */
export interface EnvoyProcess {
  /** The access log so far. */
  lines(requestId?: string): AccessLine[];
  stop(): Promise<void>;
}

/**
 * Has the real Envoy check a configuration.
 *
 * @throws Error with Envoy's own words when it refuses it
 */
export async function validateWithEnvoy(config: unknown): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'envoy-'));
  try {
    const file = await writeConfig(folder, config);
    await run(await programPath('envoy'), ['--mode', 'validate', '--config-path', file], {
      timeout: startLimitMs,
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * Starts the real Envoy with a configuration whose stats listener is on `statsPort` of loopback; resolves when all
 * listeners are there and the first health checks are over.
 *
 * @throws Error with the log when it ends before
 */
export async function startEnvoy(config: EnvoyConfig, statsPort: number): Promise<EnvoyProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'envoy-'));
  const file = await writeConfig(folder, config);
  const child = spawn(
    await programPath('envoy'),
    [
      ...['--config-path', file, '--concurrency', '1', '--log-level', 'warning'],
      ...['--disable-hot-restart', '--file-flush-interval-msec', String(logFlushMs)],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let [accessLog, problems] = ['', ''];
  child.stdout.on('data', (piece: Buffer) => (accessLog += piece.toString()));
  child.stderr.on('data', (piece: Buffer) => (problems += piece.toString()));
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  const limit = performance.now() + startLimitMs;
  while (!(await isReady(statsPort))) {
    if (child.exitCode !== null || performance.now() > limit) {
      await stop();
      throw new Error(`Envoy does not start: ${problems}`);
    }
    await sleep(50);
  }
  return {
    lines: (requestId) =>
      accessLog
        .split('\n')
        // The last line may be half written.
        .slice(0, -1)
        .map((line) => JSON.parse(line) as AccessLine)
        .filter(({ request_id: id }) => requestId === undefined || id === requestId),
    stop,
  };
}

async function writeConfig(folder: string, config: unknown): Promise<string> {
  // JSON is valid YAML.
  const file = join(folder, 'envoy.json');
  await writeFile(file, JSON.stringify(config));
  return file;
}

async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/ready`);
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
