import { Background } from './background.ts';
import { toCoordinatorError } from './errors.ts';
import { type RequestContext } from './request-context.ts';
import { type StepOutcome } from './step.ts';
import { type NamedStep } from './step-registry.ts';

/** Takes a context through the steps; throws a CoordinatorError with the name of the step that failed. */
export type RunSteps = (ctx: RequestContext) => Promise<void>;

/** The steps of a deployment in order. Stateless: one pipeline runs all requests. */
export class Pipeline {
  readonly steps: readonly NamedStep[];
  /** Steps that run before the request is prepared and divided. */
  readonly #entrances: readonly NamedStep[];
  /** Those that come after them. */
  readonly #others: readonly NamedStep[];
  readonly #prepare: (ctx: RequestContext) => void;
  readonly #spread: (ctx: RequestContext, runSteps: RunSteps) => Promise<void>;
  readonly #close: () => Promise<void>;
  readonly #background: Background;

  constructor(
    steps: readonly NamedStep[],
    options: {
      /** Changes every request before its first step, entrances excepted. */
      prepare?: (ctx: RequestContext) => void;
      /** Runs the steps as often as a request needs them; once when absent. */
      spread?: (ctx: RequestContext, runSteps: RunSteps) => Promise<void>;
      close?: () => Promise<void>;
      /** What steps do after a request is over. */
      background?: Background;
    } = {},
  ) {
    this.steps = steps;
    const first = steps.findIndex(({ isEntrance }) => !isEntrance);
    const count = first < 0 ? steps.length : first;
    this.#entrances = steps.slice(0, count);
    this.#others = steps.slice(count);
    this.#prepare = options.prepare ?? (() => {});
    this.#spread = options.spread ?? ((ctx, runSteps) => runSteps(ctx));
    this.#close = options.close ?? (() => Promise.resolve());
    this.#background = options.background ?? new Background();
  }

  /**
   * Runs the steps until one has served the client.
   *
   * @throws CoordinatorError with the name of the step that failed.
   */
  async run(ctx: RequestContext): Promise<void> {
    try {
      for (const step of this.#entrances) if ((await runStep(ctx, step)) === 'served') return;
      this.#prepare(ctx);
      await this.#spread(ctx, this.#runSteps);
    } finally {
      ctx.end();
    }
  }

  /** Resolves when the work that requests left behind is done. */
  async idle(): Promise<void> {
    await this.#background.idle();
  }

  /** Ends that work where it stands, and takes no more of it. */
  async endWork(): Promise<void> {
    await this.#background.close();
  }

  /** Ends that work and closes the connections to gateway and side services. */
  async close(): Promise<void> {
    await this.endWork();
    await this.#close();
  }

  readonly #runSteps = async (ctx: RequestContext): Promise<void> => {
    try {
      for (const step of this.#others) if ((await runStep(ctx, step)) === 'served') return;
    } finally {
      // However a request ends, what its legs were offered has its outcome, or is being given back.
      if (ctx.handoffs) for (const handoff of ctx.handoffs) handoff.end();
    }
  };
}

async function runStep(ctx: RequestContext, { type, run }: NamedStep): Promise<StepOutcome> {
  const entry = ctx.begin({ name: type, kind: 'step' });
  try {
    ctx.signal.throwIfAborted();
    const outcome = await run(ctx);
    ctx.finish(entry);
    return outcome;
  } catch (thrown) {
    // A leg that was cut because the request ended says so in its own words; the reason is what counts.
    const reason: unknown = ctx.signal.aborted ? ctx.signal.reason : thrown;
    const error = toCoordinatorError(reason, type);
    ctx.finish(entry, error);
    throw error;
  }
}
