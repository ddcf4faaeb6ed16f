import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A helper of a bench, ended with it. */
export interface Helper {
  /** The first line that matched, of what it has written. */
  readonly told: RegExpExecArray;
  stop(): Promise<void>;
}

/** Starts a program and resolves when a line of its output matches. Rejects when it ends before. */
export async function startHelper(command: readonly string[], ready: RegExp): Promise<Helper> {
  const [program = '', ...args] = command;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  await once(child, 'spawn');
  const stop = async (): Promise<void> => {
    process.off('exit', kill);
    await end(child);
  };
  let output = '';
  for await (const chunk of child.stdout) {
    output += String(chunk);
    const told = ready.exec(output);
    if (told) {
      child.stdout.resume();
      return { told, stop };
    }
  }
  throw new Error(`${program} ended: ${output.slice(-500)}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
