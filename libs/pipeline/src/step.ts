import { type UpstreamClient, type UpstreamOptions } from '@llm-d/gateway';
import { type z } from 'zod';
import { type AsyncHost } from './async-host.ts';
import { type Background } from './background.ts';
import { type HandoffListener } from './handoff.ts';
import { type Logger } from './logger.ts';
import { type MediaSource } from './media-source.ts';
import { type RequestContext } from './request-context.ts';

/** `continue` goes on to the next step; `served` means that the client has its answer. Failure is thrown. */
export type StepOutcome = 'continue' | 'served';

/** The work of a step for one request. May run for many requests at once. */
export type Step = (ctx: RequestContext) => Promise<StepOutcome>;

/** How legs are written for the gateway and engines in use (`pipeline.wire`). */
export interface WireOptions {
  readonly phaseHeader: string;
  /** Where transfer params stand in generate bodies. */
  readonly generateTransferParams: 'top-level' | 'extra-args';
  /** Whether chat legs carry the `tokens` object of older endpoint pickers. */
  readonly hasChatTokens: boolean;
  /** Whether all legs share the request id or each has a suffix of its own. */
  readonly legRequestId: 'shared' | 'unique';
  /** The header that sends a prefill leg to a reserved pod, in lower case. */
  readonly pinHeader: string;
}

/** What a step is built with, besides its own parameters. */
export interface StepDependencies {
  readonly gateway: UpstreamClient;
  /** Opens a client to a side service; it is closed with the pipeline. */
  readonly openUpstream: (options: UpstreamOptions) => UpstreamClient;
  readonly media: MediaSource;
  /** Whether some step writes chat legs as token ids (`use_openai_format: false`). */
  readonly hasTokensInLegs: boolean;
  readonly wire: WireOptions;
  readonly kvLeaseMs: number;
  readonly kvMultiSequence: 'local' | 'transfer';
  /** Where SGLang prefill pods wait for decode pods. */
  readonly bootstrapPort: number;
  /** What becomes of a leased KV hand-off that no decode leg took. */
  readonly kvRelease: 'decode' | 'lease';
  readonly onHandoff: HandoffListener;
  readonly background: Background;
  readonly trustsClientTransferParams: boolean;
  readonly upstreamErrors: 'hide' | 'relay';
  /** `pipeline.forward_response_headers`, in lower case. */
  readonly forwardResponseHeaders: readonly string[];
  /** What a step that queues requests needs; absent where the host has no queue. */
  readonly asyncHost?: AsyncHost | undefined;
  readonly log: Logger;
}

/** A kind of step: its name in the configuration, its parameters, and how one is made. */
export interface StepDefinition<Params extends z.ZodType = z.ZodType> {
  readonly type: string;
  readonly params: Params;
  /** Whether the step answers the client, so that a pipeline may end with it. */
  readonly isTerminal?: boolean;
  /** Whether the step sees requests as they came: undivided batches, no edits. It has to stand first. */
  readonly isEntrance?: boolean;
  /** Throws a plain Error with a message for the operator when the parameters do not fit. */
  create(params: z.output<Params>, dependencies: StepDependencies): Step;
}

/** Declares a kind of step; see `docs/adding-a-step.md`. */
export function defineStep<Params extends z.ZodType>(
  definition: StepDefinition<Params>,
): StepDefinition<Params> {
  return definition;
}
