import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Of captured output the end is kept: that is where a failing tool says why. */
const maxCapturedCharacters = 100_000;

/** Thrown in place of the next step once a signal has asked this process to end. */
export class Interrupted extends Error {
  constructor(signal) {
    super(`interrupted by ${signal}`);
    this.exitCode = exitCodeOfSignal(signal);
  }
}

/**
 * Makes the function that runs programs one at a time and passes signals on to the one that runs.
 * Each kind of signal is passed on once, since npm and the terminal send it again to everyone, and
 * a second Ctrl-C often means "at once".
 */
export function createRunner({ cwd }) {
  let child;
  let received;
  for (const signal of forwardedSignals) {
    let isForwarded = false;
    process.on(signal, () => {
      received ??= signal;
      if (child !== undefined && !isForwarded) {
        isForwarded = true;
        child.kill(signal);
      }
    });
  }

  /**
   * Runs a program and resolves with its exit code (128 + n when signal n ended it) and with the
   * end of what it wrote, if captured. Rejects when it does not start, or with `Interrupted` when a
   * signal came and `isLast` is not set.
   *
   * @param {string} command
   * @param {string[]} args
   * @param {object} options
   * @param {NodeJS.ProcessEnv} options.env
   * @param {'inherit' | 'capture'} [options.output]
   * @param {boolean} [options.isLast] the program stands for us: it gets stdin, its exit code is ours
   * @param {number} [options.timeoutMs]
   */
  return function run(command, args, { env, output = 'inherit', isLast = false, timeoutMs }) {
    return new Promise((resolve, reject) => {
      if (received !== undefined) {
        reject(new Interrupted(received));
        return;
      }
      const channel = output === 'capture' ? 'pipe' : 'inherit';
      const started = spawn(command, args, {
        cwd,
        env,
        stdio: [isLast ? 'inherit' : 'ignore', channel, channel],
        timeout: timeoutMs,
      });
      child = started;
      let text = '';
      for (const stream of [started.stdout, started.stderr]) {
        stream?.setEncoding('utf8').on('data', (chunk) => {
          text = (text + chunk).slice(-maxCapturedCharacters);
        });
      }
      started.once('error', (error) => {
        child = undefined;
        reject(error);
      });
      started.once('close', (code, signal) => {
        child = undefined;
        if (received !== undefined && !isLast) {
          reject(new Interrupted(received));
          return;
        }
        resolve({ code: code ?? exitCodeOfSignal(signal), text });
      });
    });
  };
}

function exitCodeOfSignal(signal) {
  return 128 + constants.signals[signal];
}
