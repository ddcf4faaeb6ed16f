/**
 * Flags of the one install: the same packages with every npm, whatever NODE_ENV or a user's npmrc
 * leave out, and no install scripts (nothing here needs one; older npm ignores `allowScripts`).
 */
export const installArguments = [
  'ci',
  '--include=dev',
  '--include=optional',
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--loglevel=error',
];

/**
 * Says why `npm ci` must run, or undefined when node_modules is what package-lock.json asks for.
 * `installed` is node_modules/.package-lock.json, which npm writes at the end of an install, so an
 * interrupted install has none. Packages beyond the lock do no harm and are not looked at.
 *
 * @param {{ packages: Record<string, LockEntry> }} lock package-lock.json
 * @param {{ packages: Record<string, LockEntry> } | undefined} installed undefined when there is none
 * @param {{ platform: string, arch: string, libc?: string }} machine
 * @returns {string | undefined}
 */
export function installReason(lock, installed, machine) {
  if (installed === undefined) {
    return 'node_modules is missing or incomplete';
  }
  const stale = Object.entries(lock.packages).find(
    ([path, entry]) => isWanted(path, entry, machine) && !isSame(entry, installed.packages[path]),
  );
  return stale && `node_modules does not match package-lock.json (${stale[0]})`;
}

/**
 * Optional packages count only when they name this machine: what they pull in for others is left
 * out by npm as well, without a mark in the lock.
 */
function isWanted(path, entry, { platform, arch, libc }) {
  if (path === '') {
    return false;
  }
  if (!entry.optional) {
    return true;
  }
  return (
    (entry.os !== undefined || entry.cpu !== undefined) &&
    allows(entry.os, platform) &&
    allows(entry.cpu, arch) &&
    allows(entry.libc, libc)
  );
}

/** A package's `os`, `cpu` or `libc`, one name or several; an exclamation mark excludes. */
function allows(allowed, name) {
  if (allowed === undefined) {
    return true;
  }
  const names = [allowed].flat();
  const included = names.filter((entry) => !entry.startsWith('!'));
  return !names.includes(`!${name}`) && (included.length === 0 || included.includes(name));
}

function isSame(wanted, found) {
  return (
    found !== undefined &&
    found.version === wanted.version &&
    found.integrity === wanted.integrity &&
    Boolean(found.link) === Boolean(wanted.link)
  );
}

/**
 * @typedef {object} LockEntry
 * @property {string} [version]
 * @property {string} [integrity]
 * @property {boolean} [link] a workspace package
 * @property {boolean} [optional]
 * @property {string | string[]} [os]
 * @property {string | string[]} [cpu]
 * @property {string | string[]} [libc]
 */
