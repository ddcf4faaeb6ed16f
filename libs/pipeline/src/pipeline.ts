import { toCoordinatorError } from './errors.ts';
import { type RequestContext, type TimelineEntry } from './request-context.ts';
import { type NamedStep } from './step-registry.ts';

/** The steps of a deployment in order. Stateless: one pipeline runs all requests. */
export class Pipeline {
  readonly steps: readonly NamedStep[];
  readonly #prepare: (ctx: RequestContext) => void;
  readonly #close: () => Promise<void>;

  constructor(
    steps: readonly NamedStep[],
    options: {
      /** Changes every request before its first step. */
      prepare?: (ctx: RequestContext) => void;
      close?: () => Promise<void>;
    } = {},
  ) {
    this.steps = steps;
    this.#prepare = options.prepare ?? (() => {});
    this.#close = options.close ?? (() => Promise.resolve());
  }

  /**
   * Runs the steps until one has served the client.
   *
   * @throws CoordinatorError with the name of the step that failed.
   */
  async run(ctx: RequestContext): Promise<void> {
    this.#prepare(ctx);
    for (const { type, run } of this.steps) {
      const entry: TimelineEntry = { name: type, kind: 'step', startMs: ctx.elapsedMs() };
      ctx.timeline.push(entry);
      try {
        ctx.signal.throwIfAborted();
        const outcome = await run(ctx);
        if (outcome === 'served') return;
      } catch (error) {
        // A leg that was cut because the request ended says so in its own words; the reason is what counts.
        const reason: unknown = ctx.signal.aborted ? ctx.signal.reason : error;
        throw toCoordinatorError(reason, type);
      } finally {
        entry.endMs = ctx.elapsedMs();
      }
    }
  }

  /** Closes the connections to gateway and side services. */
  async close(): Promise<void> {
    await this.#close();
  }
}
