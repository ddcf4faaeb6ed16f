import { pinHeaders, requestIdHeader, revisionDecisionIdHeader } from '@llm-d/gateway';

/** Ends at this hop, recomputed for each leg, or set by the coordinator itself. */
const alwaysRemoved = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['content-length', 'host', 'expect'],
  ...[requestIdHeader, revisionDecisionIdHeader],
];

/** Describes the client's body, which a leg does not carry as it came. */
const aboutBody = ['content-type', 'content-encoding'];

/** With these a client would choose a pod or play a phase (design.md decision 4). */
const control = [
  ...['epp-profile', 'x-llm-d-epp-profile', 'prefer'],
  ...['x-prefiller-host-port', 'x-encoder-hosts-ports', 'x-data-parallel-host-port'],
  ...['x-kv-cache-source-host-port', ...pinHeaders],
];
const destinationPrefix = 'x-gateway-destination-endpoint';

/** Which request headers pass to the legs; names in lower case. */
export interface HeaderPolicy {
  readonly removed: ReadonlySet<string>;
  readonly kept: ReadonlySet<string>;
}

/** Builds the policy from `server.strip_request_headers`, `server.keep_request_headers` and reserved names. */
export function headerPolicy(
  options: {
    strip?: readonly string[];
    keep?: readonly string[];
    reserved?: readonly string[];
    /** For calls that carry the client's body as it came: its content type and coding pass. */
    hasClientBody?: boolean;
  } = {},
): HeaderPolicy {
  const lower = (names: readonly string[] = []): string[] =>
    names.map((name) => name.toLowerCase());
  const removed = new Set([...control, ...lower(options.strip)]);
  const kept = new Set(lower(options.keep));
  for (const name of kept) removed.delete(name);
  const own = options.hasClientBody ? alwaysRemoved : [...alwaysRemoved, ...aboutBody];
  for (const name of [...own, ...lower(options.reserved)]) removed.add(name);
  return { removed, kept };
}

/** Headers of the client as the legs carry them. */
export class ForwardedHeaders {
  /** Names (lower case) and values in turn, all values of repeated headers. */
  readonly #pairs: readonly string[];
  /** The same without `accept-encoding`. */
  readonly #pairsWithoutEncoding: readonly string[];

  private constructor(pairs: readonly string[], pairsWithoutEncoding: readonly string[]) {
    this.#pairs = pairs;
    this.#pairsWithoutEncoding = pairsWithoutEncoding;
  }

  /** Takes the headers as Node's `rawHeaders` has them: names and values in turn. */
  static from(rawHeaders: readonly string[], policy: HeaderPolicy): ForwardedHeaders {
    const named = namedByConnection(rawHeaders);
    const pairs: string[] = [];
    const withoutEncoding: string[] = [];
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      const name = (rawHeaders[i] ?? '').toLowerCase();
      const value = rawHeaders[i + 1] ?? '';
      if (policy.removed.has(name) || named?.has(name)) continue;
      if (name.startsWith(destinationPrefix) && !policy.kept.has(name)) continue;
      pairs.push(name, value);
      if (name !== 'accept-encoding') withoutEncoding.push(name, value);
    }
    return new ForwardedHeaders(pairs, withoutEncoding);
  }

  /** The same without some headers; names in lower case. */
  without(names: readonly string[]): ForwardedHeaders {
    const kept = (pairs: readonly string[]): string[] =>
      pairs.filter((_text, i) => !names.includes(pairs[i - (i % 2)] ?? ''));
    return new ForwardedHeaders(kept(this.#pairs), kept(this.#pairsWithoutEncoding));
  }

  /** The same with further headers; names (lower case) and values in turn. */
  with(pairs: readonly string[]): ForwardedHeaders {
    return new ForwardedHeaders(
      [...this.#pairs, ...pairs],
      [...this.#pairsWithoutEncoding, ...pairs],
    );
  }

  /** The same headers for a request all of whose answers are read here. */
  withoutEncoding(): ForwardedHeaders {
    return new ForwardedHeaders(this.#pairsWithoutEncoding, this.#pairsWithoutEncoding);
  }

  /** For a leg whose answer goes to the client as it is. */
  forRelay(own: readonly string[]): string[] {
    return [...this.#pairs, ...own];
  }

  /** For a leg whose answer is read here: the client's `accept-encoding` does not apply. */
  forReading(own: readonly string[]): string[] {
    return [...this.#pairsWithoutEncoding, ...own];
  }
}

function namedByConnection(rawHeaders: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const value = rawHeaders[i + 1] ?? '';
    if (rawHeaders[i]?.toLowerCase() !== 'connection' || value === 'keep-alive') continue;
    named ??= new Set();
    for (const name of value.split(',')) named.add(name.trim().toLowerCase());
  }
  return named;
}
