import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** What decides which packages npm installs: operating system, processor and C library. */
export function machine() {
  const { platform, arch } = process;
  return { platform, arch, libc: platform === 'linux' ? libcName() : undefined };
}

/** Which of the programs are on the PATH. */
export function findCommands(names, path = '') {
  const folders = path.split(delimiter).filter((folder) => folder !== '');
  return new Set(names.filter((name) => folders.some((folder) => isProgram(join(folder, name)))));
}

/** Parsed JSON file, or undefined when there is none that can be read. */
export function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Version of a Node program as "24.1.0", or undefined when it is missing or does not start. */
export function nodeVersion(file) {
  const { status, stdout } = spawnSync(file, ['--version'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim().replace(/^v/, '') : undefined;
}

/** Whether sudo works here without asking; never prompts. */
export function hasPasswordlessSudo() {
  return spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0;
}

function libcName() {
  // Without this the report looks up the name of every peer of an open socket.
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl';
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
