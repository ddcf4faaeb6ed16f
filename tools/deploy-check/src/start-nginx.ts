import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { textOf } from './deploy-files.ts';
import { programPath } from './programs.ts';

const startLimitMs = 30_000;

/** Where the parts of deploy/nginx/nginx.conf are here. */
export interface NginxPlace {
  /** Ports of loopback in the place of 8080 and 8081. */
  readonly ports: { readonly public: number; readonly internal: number };
  /** `host:port` of the servers of `coordinator`, `encode`, `prefill` and `decode`. */
  readonly upstreams: Readonly<Record<string, readonly string[]>>;
}

/** A running nginx. */
export interface NginxProcess {
  stop(): Promise<void>;
}

/**
 * Starts the real nginx with deploy/nginx/nginx.conf, addresses apart.
 *
 * @throws Error with its log when it ends before it listens
 */
export async function startNginx(place: NginxPlace): Promise<NginxProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'nginx-'));
  const file = join(folder, 'nginx.conf');
  await writeFile(file, nginxConfig(place).replaceAll('/tmp/', `${folder}/`));
  const child = spawn(
    await programPath('nginx'),
    ['-p', folder, '-c', file, '-g', 'daemon off; worker_processes 1; master_process off;'],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let problems = '';
  child.stderr.on('data', (piece: Buffer) => (problems += piece.toString()));
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
    await rm(folder, { recursive: true, force: true });
  };
  const limit = performance.now() + startLimitMs;
  while (!(await listens(place.ports.internal))) {
    if (child.exitCode !== null || performance.now() > limit) {
      await stop();
      throw new Error(`nginx does not start: ${problems}`);
    }
    await sleep(20);
  }
  return { stop };
}

/** The shipped file with other addresses; what names none of them is as it is shipped. */
function nginxConfig({ ports, upstreams }: NginxPlace): string {
  const replace = (text: string, from: string, to: string): string => {
    if (!text.includes(from)) throw new Error(`deploy/nginx/nginx.conf: no ${from}`);
    return text.replace(from, to);
  };
  let text = textOf('deploy/nginx/nginx.conf').replace(/^worker_processes .*$/m, '');
  text = replace(text, 'listen 8080;', `listen 127.0.0.1:${ports.public};`);
  text = replace(text, 'listen 8081;', `listen 127.0.0.1:${ports.internal};`);
  for (const [name, hosts] of Object.entries(upstreams)) {
    const from =
      name === 'coordinator' ? 'server coordinator:8080;' : `server worker-${name}:8000;`;
    text = replace(text, from, hosts.map((host) => `server ${host};`).join(' '));
  }
  return text;
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
