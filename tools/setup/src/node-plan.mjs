/**
 * Chooses the Node that builds and runs the project: the one that package-lock.json brings, else
 * the machine's own when it is new enough.
 *
 * @param {object} facts
 * @param {string} facts.engines the root package.json's `engines.node`, of the form ">=22.19"
 * @param {string | undefined} facts.bundled version of the Node in node_modules; undefined when it
 *   is missing or does not start (a glibc build on Alpine)
 * @param {string} facts.system version of the Node that runs this helper
 * @returns {{ use: 'bundled' | 'system' } | { problem: string }}
 */
export function planNode({ engines, bundled, system }) {
  const minimum = engines.replace(/^>=/, '');
  if (bundled !== undefined && isAtLeast(bundled, minimum)) {
    return { use: 'bundled' };
  }
  if (isAtLeast(system, minimum)) {
    return { use: 'system' };
  }
  return {
    problem:
      `Node ${minimum} or newer is needed and this is ${system}. npm has no Node package for this ` +
      `machine, so please install one from https://nodejs.org and try again.`,
  };
}

function isAtLeast(version, minimum) {
  const parts = version.split('.').map(Number);
  for (const [index, least] of minimum.split('.').map(Number).entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) {
      return part > least;
    }
  }
  return true;
}
