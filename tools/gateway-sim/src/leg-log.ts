/** One call through the gateway, in the fields of an Envoy access log (deploy.md 3.6). */
export interface Leg {
  leg: 'client' | 'phase';
  at: string;
  listener: 'public' | 'internal';
  profile: string | undefined;
  pod: string | undefined;
  upstream: string | undefined;
  method: string;
  path: string;
  request_id: string;
  /** What the caller got; 0 when it left before headers. */
  status: number;
  /** Envoy's response flags: UF, UC, UPE, DC. */
  flags: string;
  bytes_received: number;
  bytes_sent: number;
  ms: number;
  /** Decisions of the picker; only on legs that were picked for. */
  prompt_tokens: number | undefined;
  matched_blocks: number | undefined;
  total_blocks: number | undefined;
  score: number | undefined;
  sticky: boolean | undefined;
  gate: 'open' | '412' | undefined;
}

/** Legs remembered for `/picks`. */
export const rememberedLegs = 1000;

/** The latest legs, and a line for each as it ends. */
export class LegLog {
  #legs: Leg[] = [];
  readonly #counts = new Map<string, number>();
  readonly #write: (leg: Leg) => void;

  constructor(write: (leg: Leg) => void) {
    this.#write = write;
  }

  /** Opens a leg; nobody sees it before {@link close}. */
  open(base: Pick<Leg, 'leg' | 'listener' | 'method' | 'path' | 'request_id' | 'profile'>): Leg {
    return {
      ...base,
      at: new Date().toISOString(),
      pod: undefined,
      upstream: undefined,
      status: 0,
      flags: '',
      bytes_received: 0,
      bytes_sent: 0,
      ms: 0,
      prompt_tokens: undefined,
      matched_blocks: undefined,
      total_blocks: undefined,
      score: undefined,
      sticky: undefined,
      gate: undefined,
    };
  }

  /** Counts, remembers and writes a leg that has ended. */
  close(leg: Leg): void {
    const labels = [
      `leg="${leg.leg}"`,
      `profile="${metricProfile(leg)}"`,
      `status="${leg.status}"`,
      `flags="${leg.flags}"`,
    ].join(',');
    this.#counts.set(labels, (this.#counts.get(labels) ?? 0) + 1);
    this.#legs.push(leg);
    if (this.#legs.length > rememberedLegs) this.#legs.shift();
    this.#write(leg);
  }

  /** Remembered legs, all or those of one request id, oldest first. */
  list(requestId?: string): Leg[] {
    return requestId === undefined
      ? [...this.#legs]
      : this.#legs.filter((leg) => leg.request_id === requestId);
  }

  /** Counter lines in Prometheus text. */
  metricsText(): string {
    const lines = [...this.#counts].map(
      ([labels, count]) => `gateway_sim_legs_total{${labels}} ${count}`,
    );
    return ['# TYPE gateway_sim_legs_total counter', ...lines, ''].join('\n');
  }
}

const known = new Set(['encode', 'prefill', 'decode', '']);

/** A caller's own words never become label values. */
const metricProfile = ({ profile = '' }: Leg): string =>
  known.has(profile) ? profile : 'unknown-profile';
