import { type JsonSpan } from '@llm-d/json-document';
import { type RequestContext, type RunSteps, type StepDependencies } from '@llm-d/pipeline';
import { countOf } from '../kv-sequences.ts';
import { runLimited } from '../run-limited.ts';
import { answerFailure, type BatchFailure } from './answer-failure.ts';
import { HeldBytes } from './prompt-answer.ts';
import { promptList } from './prompt-list.ts';
import { StreamedBatch } from './streamed-batch.ts';
import { WholeBatch } from './whole-batch.ts';

/** Limits of a completions request with several prompts. */
export interface BatchOptions extends Pick<StepDependencies, 'upstreamErrors'> {
  /** Prompts of one request. */
  readonly maxBatchSize: number;
  /** Prompts of one request that run at the same time. */
  readonly maxBatchParallel: number;
}

/** Runs the steps once for each prompt of a completions request and makes one answer of all answers. */
export function runEachPrompt(
  options: BatchOptions,
): (ctx: RequestContext, runSteps: RunSteps) => Promise<void> {
  return (ctx, runSteps) =>
    ctx.api === 'completions' ? runPrompts(ctx, runSteps, options) : runSteps(ctx);
}

async function runPrompts(
  ctx: RequestContext,
  runSteps: RunSteps,
  options: BatchOptions,
): Promise<void> {
  const prompts = promptList(ctx.body, options.maxBatchSize);
  if (prompts && prompts.length > 1) {
    await runBatch(ctx, prompts, runSteps, options);
    return;
  }
  // A worker's answer to the only prompt of a list is the answer to the list, byte for byte.
  const [only] = prompts ?? [];
  if (only) ctx.body = ctx.body.with({ prompt: only });
  await runSteps(ctx);
}

async function runBatch(
  ctx: RequestContext,
  prompts: readonly JsonSpan[],
  runSteps: RunSteps,
  options: BatchOptions,
): Promise<void> {
  const stop = new AbortController();
  const heldBytes = new HeldBytes((error) => {
    stop.abort(error);
  });
  const samples = countOf(ctx.body.get('n'));
  const batch = new (ctx.isStreaming ? StreamedBatch : WholeBatch)(ctx.sink, samples, heldBytes);
  let failure: BatchFailure | undefined;
  const work = async (prompt: JsonSpan, index: number, signal: AbortSignal): Promise<void> => {
    const answer = batch.answerTo(index);
    const body = ctx.body.with({ prompt });
    const own = ctx.forPrompt(index, { body, signal, sink: answer });
    try {
      await runSteps(own);
      await answer.settle();
    } catch (error) {
      failure ??= { index, error, answer };
      throw error;
    } finally {
      ctx.addPromptTokens(own);
    }
  };
  const signal = AbortSignal.any([ctx.signal, stop.signal]);
  try {
    await runLimited(prompts, options.maxBatchParallel, signal, work);
    for (const chunk of batch.finish()) ctx.answerTail.add(chunk);
  } catch (error) {
    throw failure ? answerFailure(ctx, failure, options) : error;
  }
}
