import { Upstream, type UpstreamTimes } from './upstream.ts';

/** Hears of what happens to upstreams, for metrics; `index` is the place in the configuration. */
export interface UpstreamObserver {
  called(index: number, outcome: 'served' | 'refused' | 'failed' | 'cancelled'): void;
  ejected(index: number): void;
  retried(): void;
}

const DEFAULT_TIMES: UpstreamTimes = {
  connectMs: 2_000,
  headersMs: 60_000,
  bodyMs: 30_000,
  probeMs: 1_000,
  deepProbeMs: 10_000,
  ejectMs: 10_000,
  maxEjectMs: 120_000,
};
const PROBE_EVERY_MS = 5_000;
/** Every so many probes the upstream is asked for its models and routes again. */
const LEARN_EVERY = 12;
/** Every so many probes renders something; the first after half a minute. */
const RENDER_EVERY = 6;

/** The upstreams of one model: who is well, and who is next. */
export class UpstreamGroup {
  readonly upstreams: readonly Upstream[];
  private timer: NodeJS.Timeout | undefined;
  private rounds = 0;
  private readonly random: () => number;

  constructor(
    addresses: readonly string[],
    times: Partial<UpstreamTimes> = {},
    random: () => number = Math.random,
  ) {
    const all = { ...DEFAULT_TIMES, ...times };
    this.upstreams = addresses.map((address, index) => new Upstream(index, address, all));
    this.random = random;
  }

  /** Looks at all upstreams once, and from then on every five seconds. Does not fail when none is there. */
  async start(): Promise<void> {
    await this.look();
    this.timer = setInterval(() => void this.look(), PROBE_EVERY_MS).unref();
  }

  /** True when one of them answers probes. */
  get isHealthy(): boolean {
    return this.upstreams.some(({ isHealthy }) => isHealthy === true);
  }

  /**
   * The less busy of two that could serve the path, `except` left out. Undefined when none can: `anyHas` tells whether
   * that is for want of health.
   */
  choose(path: string, except?: Upstream): Upstream | undefined {
    const now = performance.now();
    const able = this.upstreams.filter(
      (upstream) =>
        upstream !== except &&
        upstream.isHealthy !== false &&
        !upstream.isEjected(now) &&
        upstream.has(path),
    );
    const first = able[Math.floor(this.random() * able.length)];
    const others = able.filter((upstream) => upstream !== first);
    const second = others[Math.floor(this.random() * others.length)];
    return second !== undefined && first !== undefined && second.outstanding < first.outstanding
      ? second
      : first;
  }

  /** False when no upstream has the route, whatever its health. */
  anyHas(path: string): boolean {
    return this.upstreams.some((upstream) => upstream.has(path));
  }

  /** Counts a failed call; true when it took the upstream out. At most half of them are out at a time. */
  failed(upstream: Upstream): boolean {
    const now = performance.now();
    const out = this.upstreams.filter((other) => other.isEjected(now)).length;
    return upstream.failed(now, out < Math.floor(this.upstreams.length / 2));
  }

  /** Cuts all calls. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await Promise.all(this.upstreams.map(({ client }) => client.destroy()));
  }

  /** Those that came back, and from time to time all, are asked what they have. */
  private async look(): Promise<void> {
    const round = this.rounds++;
    const isTime = round % LEARN_EVERY === 0;
    const isDeep = round % RENDER_EVERY === RENDER_EVERY - 1;
    await Promise.all(
      this.upstreams.map(async (upstream) => {
        const wasHealthy = upstream.isHealthy === true;
        const isHealthy = await upstream.probe(isDeep);
        if (isHealthy && (isTime || !wasHealthy)) await upstream.learn();
      }),
    );
  }
}
