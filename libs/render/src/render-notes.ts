/** Parts of the work whose time is told. */
export type RenderPart = 'template' | 'tokenize' | 'image';

/** For whom something is rendered. */
export interface RenderCaller {
  /** What waits for its turn is dropped when it aborts; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Hears how it went. */
  readonly notes?: RenderNotes | undefined;
  /** Texts and images in the caches are not shared with other tenants; single words of the tokenizer are. */
  readonly tenant?: string | undefined;
}

/** What is told about the rendering of one request beside its answer. */
export class RenderNotes {
  /** `miss` when something had to be made that a cache may keep, `off` when nothing was looked up. */
  cache: 'hit' | 'miss' | 'off' = 'off';
  private readonly milliseconds = new Map<RenderPart, number>();

  /** Milliseconds of each part that was timed. */
  get times(): ReadonlyMap<RenderPart, number> {
    return this.milliseconds;
  }

  /** Counts a look-up in a cache. */
  lookedUp(isKnown: boolean): void {
    this.cache = isKnown && this.cache !== 'miss' ? 'hit' : 'miss';
  }

  /** Adds the time since `startedAt`, a value of `performance.now()`. */
  spent(part: RenderPart, startedAt: number): void {
    const before = this.milliseconds.get(part) ?? 0;
    this.milliseconds.set(part, before + performance.now() - startedAt);
  }

  /** Value of a `Server-Timing` header; empty when nothing was timed. */
  get serverTiming(): string {
    const parts = [...this.milliseconds].map(([part, time]) => `${part};dur=${time.toFixed(2)}`);
    return parts.join(', ');
  }
}
