import { TransportError, UpstreamClient } from '@llm-d/gateway';

/** Times in milliseconds. */
export interface UpstreamTimes {
  readonly connectMs: number;
  /** From the request sent to the answer's headers. */
  readonly headersMs: number;
  /** Longest silence inside an answer. */
  readonly bodyMs: number;
  readonly probeMs: number;
  /** For a probe that renders: longer, because the server may be busy. */
  readonly deepProbeMs: number;
  /** First ejection; each further one is twice as long. */
  readonly ejectMs: number;
  readonly maxEjectMs: number;
}

/** Failures in a row after which an upstream gets no requests for a while. */
const MAX_FAILURES = 5;
const IDLE_MS = 60_000;
const MAX_IDLE_CONNECTIONS = 64;
/** Of an answer that is read here: models, version, routes. */
const MAX_INFO_BYTES = 8 << 20;

/** What an upstream says about a model. */
export interface UpstreamModel {
  readonly id: string;
  readonly root: string | undefined;
  readonly maxModelLen: number | undefined;
}

/** One vLLM render server, and what is known of it. */
export class Upstream {
  /** Position in the configuration; addresses are nobody's business. */
  readonly index: number;
  readonly client: UpstreamClient;
  /** Requests on their way, by weight. */
  outstanding = 0;
  /** What its last probe said; undefined before the first. */
  isHealthy: boolean | undefined;
  models: readonly UpstreamModel[] = [];
  private readonly times: UpstreamTimes;
  /** Paths it is known to have; undefined when it does not tell. */
  private paths: ReadonlySet<string> | undefined;
  private readonly missing = new Set<string>();
  private failures = 0;
  private ejections = 0;
  private ejectedUntil = 0;

  constructor(index: number, address: string, times: UpstreamTimes) {
    this.index = index;
    this.times = times;
    this.client = new UpstreamClient({
      address,
      connectTimeoutMs: times.connectMs,
      headersTimeoutMs: times.headersMs,
      bodyTimeoutMs: times.bodyMs,
      idleTimeoutMs: IDLE_MS,
      maxIdleConnections: MAX_IDLE_CONNECTIONS,
      callTimeoutMs: times.headersMs,
      maxAnswerBytes: MAX_INFO_BYTES,
    });
  }

  /** True while it gets no requests because too many failed. */
  isEjected(now: number): boolean {
    return now < this.ejectedUntil;
  }

  /** False for a route that it does not have. */
  has(path: string): boolean {
    return !this.missing.has(path) && this.paths?.has(path) !== false;
  }

  /** It answered 404 or 405 on a route. */
  lacks(path: string): void {
    this.missing.add(path);
  }

  succeeded(): void {
    this.failures = 0;
    this.ejections = 0;
    this.ejectedUntil = 0;
  }

  /** Counts a failure. True when it is one too many and `mayEject` allows the ejection that follows. */
  failed(now: number, mayEject: boolean): boolean {
    this.failures += 1;
    if (this.failures < MAX_FAILURES || !mayEject) return false;
    const { ejectMs, maxEjectMs } = this.times;
    this.ejectedUntil = now + Math.min(ejectMs * 2 ** this.ejections, maxEjectMs);
    this.ejections += 1;
    this.failures = 0;
    return true;
  }

  /** Asks whether it is there, and with `isDeep` whether it renders: its `/health` says nothing about that. */
  async probe(isDeep = false): Promise<boolean> {
    try {
      const isThere = (await this.get('/health')).status === 200;
      this.isHealthy = isThere && (!isDeep || (await this.renders()));
    } catch {
      this.isHealthy = false;
    }
    return this.isHealthy;
  }

  /** False only for a fault of its own: it may refuse the request, or lack the route. */
  private async renders(): Promise<boolean> {
    const body = Buffer.from('{"prompt":"a"}');
    const { status } = await this.client.call({
      path: '/v1/completions/render',
      headers: ['content-type', 'application/json'],
      body: { byteLength: body.length, chunks: [body] },
      signal: AbortSignal.timeout(this.times.deepProbeMs),
      isRepeatable: true,
    });
    return status < 500;
  }

  /** Learns its models and routes; what it does not tell stays unknown. */
  async learn(): Promise<void> {
    const models = await this.info('/v1/models');
    this.models = readModels(models) ?? this.models;
    const api = await this.info('/openapi.json');
    const paths = isRecord(api) && isRecord(api['paths']) ? Object.keys(api['paths']) : [];
    if (paths.length === 0) return;
    this.paths = new Set(paths);
    this.missing.clear();
  }

  private async info(path: string): Promise<unknown> {
    try {
      const { status, body } = await this.get(path);
      return status === 200 ? (JSON.parse(body.toString()) as unknown) : undefined;
    } catch {
      return undefined;
    }
  }

  private async get(path: string): Promise<{ readonly status: number; readonly body: Buffer }> {
    const chunks: Uint8Array[] = [];
    let [answered, length] = [0, 0];
    const limit = new AbortController();
    const timer = setTimeout(() => {
      limit.abort(new TransportError('timeout'));
    }, this.times.probeMs);
    try {
      await this.client.stream(
        { method: 'GET', path, headers: [], body: undefined, signal: limit.signal },
        {
          start: (status) => {
            answered = status;
            return true;
          },
          data: (chunk) => {
            length += chunk.length;
            if (length > MAX_INFO_BYTES) limit.abort(new TransportError('answer-too-large'));
            else chunks.push(chunk);
          },
        },
      );
    } finally {
      clearTimeout(timer);
    }
    return { status: answered, body: Buffer.concat(chunks) };
  }
}

function readModels(value: unknown): UpstreamModel[] | undefined {
  const list = isRecord(value) ? value['data'] : undefined;
  if (!Array.isArray(list)) return undefined;
  return list.filter(isRecord).flatMap(({ id, root, max_model_len: length }) =>
    typeof id === 'string'
      ? [
          {
            id,
            root: typeof root === 'string' ? root : undefined,
            maxModelLen: typeof length === 'number' ? length : undefined,
          },
        ]
      : [],
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
