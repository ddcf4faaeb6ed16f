import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from '@llm-d/soak';

/** Path of the built program. */
export const coordinatorScript = fileURLToPath(
  new URL('../../../apps/coordinator/dist/main.js', import.meta.url),
);

/** The built coordinator as an operator runs it. */
export interface CoordinatorProcess {
  readonly pid: number | undefined;
  /** Everything that it has written, log and errors. */
  readonly output: () => string;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Resolves with the exit code; null after a signal. */
  readonly exited: Promise<number | null>;
}

/** Where a coordinator listens, from its log. */
export const addressOf = ({ output }: CoordinatorProcess): Promise<string> =>
  until('the address', () => /"address":"(https?:[^"]+)","msg":"listening"/.exec(output())?.[1]);

/** Starts a coordinator with a configuration of its own; whoever started it ends it. */
export function runCoordinator(config: object, flags: readonly string[] = []): CoordinatorProcess {
  const directory = mkdtempSync(join(tmpdir(), 'e2e-coordinator-'));
  const file = join(directory, 'coordinator.yaml');
  // JSON is valid YAML.
  writeFileSync(file, JSON.stringify(config));
  // With both colour variables set, as nx does it, Node writes a warning first.
  const child: ChildProcess = spawn(
    process.execPath,
    [coordinatorScript, '--config', file, ...flags],
    {
      env: { ...process.env, FORCE_COLOR: undefined },
    },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (piece: Buffer) => {
      output += piece.toString();
    });
  }
  const exited = once(child, 'close').then(([code]) => {
    rmSync(directory, { recursive: true });
    return code as number | null;
  });
  return { pid: child.pid, output: () => output, signal: (name) => void child.kill(name), exited };
}
