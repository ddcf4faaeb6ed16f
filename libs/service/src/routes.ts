import { type FastifyInstance } from 'fastify';
import { RequestError } from './request-error.ts';

/** Knows the registered paths, to tell an unknown path (404) from a wrong method (405). */
export class Routes {
  readonly #methodsByPattern = new Map<string, Set<string>>();

  /** Listens to a Fastify instance; call before any route is registered. */
  constructor(fastify: FastifyInstance) {
    fastify.addHook('onRoute', ({ url, method }) => {
      const methods = this.#methodsByPattern.get(url) ?? new Set();
      for (const name of [method].flat()) methods.add(name);
      this.#methodsByPattern.set(url, methods);
    });
  }

  /** The refusal of a request that no route takes. */
  refusal(method: string, path: string): RequestError {
    const segments = segmentsOf(path);
    const allowed = new Set<string>();
    for (const [pattern, methods] of this.#methodsByPattern) {
      if (matches(pattern, segments)) for (const name of methods) allowed.add(name);
    }
    if (allowed.size === 0) {
      return new RequestError(404, 'UNKNOWN_PATH', 'no such path');
    }
    // GET stands for HEAD too, and the original names GET alone.
    if (allowed.has('GET')) allowed.delete('HEAD');
    const allow = [...allowed].join(', ');
    return new RequestError(405, 'METHOD_NOT_ALLOWED', `this path takes ${allow}, not ${method}`, {
      headers: ['allow', allow],
    });
  }
}

/** The segments of a path as the router sees them: doubled and closing slashes do not count. */
function segmentsOf(path: string): string[] {
  let clean = path.replace(/^https?:\/\/[^/]*/i, '').replaceAll(/\/{2,}/g, '/');
  if (clean.length > 1) clean = clean.replace(/\/$/, '');
  try {
    clean = decodeURI(clean);
  } catch {
    // A broken escape stands for no route.
  }
  return clean.split('/');
}

/** Whether a route pattern with `:name` segments stands for this path. */
function matches(pattern: string, given: readonly string[]): boolean {
  const wanted = pattern.split('/');
  return (
    wanted.length === given.length &&
    wanted.every((segment, index) => segment.startsWith(':') || segment === given[index])
  );
}
