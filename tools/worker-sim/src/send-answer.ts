import {
  type AnswerHead,
  type Choice,
  closingFrames,
  openingFrames,
  tokenFrame,
  wholeAnswer,
} from './answer-shapes.ts';
import { ApiError } from './api-error.ts';
import { type AdmittedCall } from './call.ts';
import { type JsonObject } from './exact-json.ts';
import { type PhaseResult } from './phase-result.ts';
import { CutByFault } from './reply.ts';

/** Generates the answer token by token and sends it; stops within one token when the client leaves. */
export async function sendAnswer(
  call: AdmittedCall,
  head: AnswerHead,
  result: PhaseResult,
): Promise<void> {
  const { reply, input, faults, record } = call;
  const { choices } = result;
  record.outcome.finishReason = choices[0]?.answer.finishReason;
  if (faults.atStart('tiny-chunks')) reply.useTinyChunks();
  if (faults.atStart('garbage')) {
    await reply.text(200, 'application/json', '<html>this is not JSON</html>');
    return;
  }
  if (!input.isStreaming) {
    await generate(call, choices, () => Promise.resolve());
    await reply.json(
      200,
      wholeAnswer(head, choices, { kv: result.kvTransferParams, ec: result.ecTransferParams }),
    );
    return;
  }
  const isComplete = await generate(call, choices, async (choice, at) => {
    if (!reply.hasStarted) await startStream(call, head, choices);
    await sendFrame(call, tokenFrame(head, choice, at));
  });
  if (!isComplete) return;
  if (!reply.hasStarted) await startStream(call, head, choices);
  const { completionTokens } = record.outcome;
  const closing = closingFrames(head, choices, { completionTokens, usage: input.includeUsage });
  for (const frame of closing) await sendFrame(call, frame);
  reply.end();
}

/** Events of the Responses API have their type as a name too. */
async function sendFrame(
  { reply, input }: AdmittedCall,
  frame: JsonObject | string,
): Promise<void> {
  const type = input.api === 'responses' && typeof frame !== 'string' ? frame['type'] : undefined;
  await reply.frame(frame, typeof type === 'string' ? type : undefined);
}

/** Headers go out with the first token, so that a failure before it has its own status. */
async function startStream(
  call: AdmittedCall,
  head: AnswerHead,
  choices: readonly Choice[],
): Promise<void> {
  call.reply.startStream();
  for (const frame of openingFrames(head, choices)) await sendFrame(call, frame);
}

/** Runs all sequences side by side, one token each per step. False when a fault ended the answer. */
async function generate(
  call: AdmittedCall,
  choices: readonly Choice[],
  emit: (choice: Choice, at: number) => Promise<void>,
): Promise<boolean> {
  const { engine, latency, reply, record, startedMs } = call;
  const steps = Math.max(0, ...choices.map(({ answer }) => answer.tokens.length));
  let previous = performance.now();
  for (let at = 0; at < steps; at += 1) {
    // The first token comes out of prefill, which was waited for.
    await engine.clock.sleep(at === 0 ? 0 : latency.token(), reply.signal);
    const now = performance.now();
    if (at === 0) {
      engine.metrics.observe('vllm:time_to_first_token_seconds', (now - startedMs) / 1000);
    } else {
      engine.metrics.observe('vllm:inter_token_latency_seconds', (now - previous) / 1000);
    }
    previous = now;
    if (!(await survivesFaults(call, at))) return false;
    for (const choice of choices) {
      if (at >= choice.answer.tokens.length) continue;
      await emit(choice, at);
      record.outcome.completionTokens += 1;
      engine.metrics.count('vllm:generation_tokens_total');
    }
  }
  return survivesFaults(call, steps);
}

async function survivesFaults(call: AdmittedCall, sent: number): Promise<boolean> {
  const { engine, faults, reply, input } = call;
  const stall = faults.afterTokens('stall', sent);
  if (stall) await engine.clock.sleep(stall.ms ?? 0, reply.signal);
  if (faults.afterTokens('reset', sent)) {
    reply.destroy();
    throw new CutByFault(`reset after ${sent} tokens`);
  }
  if (!input.isStreaming) return true;
  if (faults.afterTokens('truncate', sent)) {
    if (!reply.hasStarted) reply.startStream();
    reply.end();
    return false;
  }
  if (faults.afterTokens('error-frame', sent)) {
    if (!reply.hasStarted) reply.startStream();
    await reply.frame(new ApiError(500, 'injected error').body);
    await reply.frame('[DONE]');
    reply.end();
    return false;
  }
  return true;
}
