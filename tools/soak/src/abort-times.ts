import { type CallEnd, type ProxiedCall } from './proxy.ts';

/** How long legs stayed open after their client had left, in milliseconds. */
export interface AbortSummary {
  /** Legs that were open when the client left, or were sent before the coordinator could know. */
  readonly legs: number;
  /** Of those, the ones that ended before their answer was whole. */
  readonly cut: number;
  readonly byPhase: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Legs that give a KV hand-off back; they are meant to outlive the client. */
  readonly releases: number;
}

/** No question asks for a single token, so that only a decode leg that gives blocks back does. */
const singleToken = /"max_(?:completion_|output_)?tokens":1[,}]/;

/** Measures, per leg, the time from the client's close to the leg's. */
export class AbortTimes {
  readonly #leftAt = new Map<string, number>();
  readonly #byPhase: Record<string, number> = {};
  readonly #times: number[] = [];
  #cut = 0;
  #releases = 0;

  /** To be called in the moment in which the client closes its connection. */
  left(requestId: string): void {
    this.#leftAt.set(requestId, performance.now());
  }

  /** Takes the end of a leg; one that ended before its client left says nothing. */
  ended({ requestId, phase = 'render', sent }: ProxiedCall, { at, isCut }: CallEnd): void {
    const leftAt = this.#leftAt.get(requestId);
    if (leftAt === undefined) return;
    if (phase === 'decode' && singleToken.test(sent.toString())) {
      this.#releases += 1;
      return;
    }
    this.#byPhase[phase] = (this.#byPhase[phase] ?? 0) + 1;
    this.#times.push(at - leftAt);
    if (isCut) this.#cut += 1;
  }

  summary(): AbortSummary {
    const sorted = this.#times.toSorted((a, b) => a - b);
    const share = (part: number): number =>
      rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0);
    return {
      legs: sorted.length,
      cut: this.#cut,
      byPhase: this.#byPhase,
      ...{ p50Ms: share(0.5), p99Ms: share(0.99), maxMs: share(1) },
      releases: this.#releases,
    };
  }
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10;
