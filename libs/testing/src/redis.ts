import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A private Redis of one test file; it stops with `close` or at the end of an `await using`. */
export interface RedisServer extends AsyncDisposable {
  /** `redis://127.0.0.1:<port>`, the same after a restart. */
  readonly url: string;
  /** Runs one command of words without blanks and resolves with its answer as the server wrote it. */
  command(...words: string[]): Promise<string>;
  /** Stops the process where it is: connections stay open and nothing answers. */
  freeze(): void;
  /** Lets a frozen process go on. */
  thaw(): void;
  /** Ends the process at once; its data are gone. */
  kill(): Promise<void>;
  /** Starts an empty server on the same port after `kill`. */
  restart(): Promise<void>;
  /** Refuses every further write as a server does that is full and may not evict. */
  fill(): Promise<void>;
  /** Ends the process and removes its folder; may be called again. */
  close(): Promise<void>;
}

/** How many ports are tried: another process may take a free one before the server does. */
const maxStarts = 5;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** One line in, the answer's bytes out: status, error, number or bulk text. */
async function ask(port: number, words: readonly string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  // QUIT makes the end of the answer the end of the connection.
  socket.end(`${words.join(' ')}\r\nQUIT\r\n`);
  for await (const chunk of socket) {
    answer += String(chunk);
  }
  return answer.replace(/\+OK\r\n$/, '').trimEnd();
}

/** Resolves with the process when it takes connections; undefined when it ended before. */
async function launch(
  program: string,
  port: number,
  folder: string,
  args: readonly string[],
): Promise<ChildProcess | undefined> {
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder];
  const child = spawn(
    program,
    [...options, '--save', '', '--appendonly', 'no', '--daemonize', 'no', ...args],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  try {
    await once(child, 'spawn');
  } catch (cause) {
    throw new Error('tests need redis-server on the PATH: `npm test` installs it', { cause });
  }
  let log = '';
  for await (const chunk of child.stdout) {
    log += String(chunk);
    if (/ready to accept connections/i.test(log)) {
      child.stdout.resume();
      return child;
    }
  }
  return undefined;
}

/** Starts a Redis without persistence on a free port; `args` are further options of redis-server. */
export async function startRedis(
  args: readonly string[] = [],
  program = 'redis-server',
): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'test-redis-'));
  const removeFolder = (): Promise<void> => rm(folder, { recursive: true, force: true });
  let child: ChildProcess | undefined;
  let port = 0;
  try {
    for (let start = 0; child === undefined && start < maxStarts; start += 1) {
      port = await freePort();
      child = await launch(program, port, folder, args);
    }
    if (child === undefined) {
      throw new Error('redis-server does not start: see its options in the test');
    }
  } catch (error) {
    await removeFolder();
    throw error;
  }

  const kill = async (): Promise<void> => {
    const running = child;
    child = undefined;
    if (running !== undefined && running.exitCode === null && running.signalCode === null) {
      const ended = once(running, 'exit');
      running.kill('SIGKILL'); // also ends a frozen process
      await ended;
    }
  };
  const command = (...words: string[]): Promise<string> => ask(port, words);
  const close = async (): Promise<void> => {
    await kill();
    await removeFolder();
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    command,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    kill,
    restart: async () => {
      await kill();
      child = await launch(program, port, folder, args);
      if (child === undefined) {
        throw new Error('redis-server does not start again on its port');
      }
    },
    fill: async () => {
      await command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
      await command('CONFIG', 'SET', 'maxmemory', '1');
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
