import { type AnswerHead, engineRequestId } from './answer-shapes.ts';
import { ApiError } from './api-error.ts';
import { type AdmittedCall, type Call } from './call.ts';
import { checkPreference, checkUuids } from './decode-checks.ts';
import { decodePhase } from './decode-phase.ts';
import { encodePhase } from './encode-phase.ts';
import { type Engine } from './engine.ts';
import { type Api, type InferenceInput, parseBody, parseInput } from './inference-input.ts';
import { isObject, type JsonObject } from './exact-json.ts';
import { fatalDefect, releaseKv } from './kv-transfer.ts';
import { type PhaseResult } from './phase-result.ts';
import { prefillPhase } from './prefill-phase.ts';
import { type Prompt, promptDigest } from './prompt.ts';
import { readPrompts } from './read-prompts.ts';
import { CutByFault } from './reply.ts';
import { checkProfile, checkRole, type Phase, phaseOf } from './role-rules.ts';
import { sendAnswer } from './send-answer.ts';

/** Serves one inference call from faults to the last byte. Throws ApiError for a refusal. */
export async function serveInference(engine: Engine, api: Api, call: Call): Promise<void> {
  engine.throwIfDead();
  const { reply, record } = call;
  await strikeAtStart(engine, call);
  checkProfile(engine.config.role, record.profile);
  const body = parseBody(call.body);
  let input: InferenceInput;
  try {
    input = parseInput(api, body, engine.models);
  } catch (error) {
    await releaseOfRefused(engine, api, body);
    throw error;
  }
  const { prompts, uuids } = await readPrompts(input, call.body, engine.reader, engine.tuning);
  const hasImages = prompts.some(({ images }) => images.length > 0);
  const phase = phaseOf(engine.config.role, input, record.profile, hasImages);
  note(call, input, prompts, phase);
  checkRole(engine.config, phase, input, hasImages);
  if (phase === 'decode') {
    if (input.ecTransferParams) engine.metrics.count('sim_ignored_ec_params_total');
    checkUuids(engine, prompts, uuids);
    checkPreference(engine, record.prefer, input, prompts);
  }
  const queuedMs = performance.now();
  const leave = await engine.slots.take(reply.signal).catch(async (error: unknown) => {
    if (reply.signal.aborted) await freeBlocks(engine, input.kvTransferParams);
    throw error;
  });
  const admittedMs = performance.now();
  engine.metrics.observe('vllm:request_queue_time_seconds', (admittedMs - queuedMs) / 1000);
  let result: PhaseResult | undefined;
  try {
    const admitted: AdmittedCall = {
      ...call,
      engine,
      input,
      prompts,
      latency: engine.latency(),
      engineRequestId: engineRequestId(api, record.requestId),
    };
    result = await phases[phase](admitted);
    record.cachedTokens = result.cachedTokens;
    const computedMs = performance.now();
    engine.metrics.observe('vllm:request_prefill_time_seconds', (computedMs - admittedMs) / 1000);
    await sendAnswer(admitted, headOf(admitted, result), result);
    finish(engine, admitted, { admittedMs, computedMs });
  } finally {
    result?.release();
    leave();
  }
  if (call.faults.atStart('oom')) engine.exit(137, 'out of memory (fault)');
}

const phases: Readonly<Record<Phase, (call: AdmittedCall) => Promise<PhaseResult>>> = {
  encode: encodePhase,
  prefill: prefillPhase,
  decode: decodePhase,
};

async function strikeAtStart(engine: Engine, { faults, reply }: Call): Promise<void> {
  const delay = faults.atStart('delay');
  if (delay) await engine.clock.sleep(delay.value ?? 0, reply.signal);
  if (faults.atStart('hang')) await engine.clock.sleep(Infinity, reply.signal);
  if (faults.atStart('reset')) {
    reply.destroy();
    throw new CutByFault('reset before headers');
  }
  const status = faults.atStart('status');
  if (status) {
    const code = status.value ?? 503;
    throw new ApiError(code, `injected status ${code}`, {
      headers: code === 429 || code === 503 ? { 'retry-after': '1' } : {},
    });
  }
}

/**
 * A real decode pod that refuses a chat or completions body tells the prefill pod to free the blocks at
 * once; on generate nobody does, and they wait for the lease (engine-verified.md 4).
 */
async function releaseOfRefused(engine: Engine, api: Api, body: JsonObject): Promise<void> {
  const params = body['kv_transfer_params'];
  if (api !== 'generate' && isObject(params)) await freeBlocks(engine, params);
}

/**
 * Tells the prefill pod that this pod will not fetch its blocks: vLLM's connector does so for every request that ends
 * before it was scheduled, a client that left included (`request_finished` of NixlConnector).
 */
async function freeBlocks(engine: Engine, params: JsonObject | undefined): Promise<void> {
  if (engine.config.kvConnector !== 'nixl' || params?.['do_remote_prefill'] !== true) return;
  if (fatalDefect(params) !== undefined) return;
  await releaseKv(engine.agent, params, engine.tuning.pullTimeoutMs);
}

function note(call: Call, input: InferenceInput, prompts: Prompt[], phase: Phase): void {
  const { record } = call;
  // The header wins over the body's own id, as in vLLM.
  if (call.headers['x-request-id'] === undefined && input.requestId !== undefined) {
    record.requestId = input.requestId;
  }
  record.phase = phase;
  record.model = input.model;
  record.isStreaming = input.isStreaming;
  record.maxTokens = input.maxTokens;
  record.promptTokens = prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  record.promptDigests = prompts.map(promptDigest);
  record.images = prompts.flatMap(({ images }) =>
    images.map(({ hash, offset, length, size }) => ({ hash, offset, length, ...size })),
  );
  record.kvTransferParams = input.kvTransferParams;
  record.ecTransferParams = input.ecTransferParams;
}

const headOf = (call: AdmittedCall, result: PhaseResult): AnswerHead => ({
  api: call.input.api,
  id: call.engineRequestId,
  model: call.input.model,
  created: Math.floor(Date.now() / 1000),
  promptTokens: call.record.promptTokens ?? 0,
  cachedTokens: result.cachedTokens,
  wantsLogprobs: call.input.wantsLogprobs,
});

function finish(
  { metrics }: Engine,
  { record, startedMs }: AdmittedCall,
  { admittedMs, computedMs }: { admittedMs: number; computedMs: number },
): void {
  const now = performance.now();
  const { outcome, promptTokens = 0 } = record;
  metrics.count('vllm:request_success_total', { finished_reason: outcome.finishReason ?? 'stop' });
  metrics.count('vllm:prompt_tokens_total', {}, promptTokens);
  metrics.observe('vllm:request_prompt_tokens', promptTokens);
  metrics.observe('vllm:request_generation_tokens', outcome.completionTokens);
  metrics.observe('vllm:request_decode_time_seconds', (now - computedMs) / 1000);
  metrics.observe('vllm:request_inference_time_seconds', (now - admittedMs) / 1000);
  metrics.observe('vllm:e2e_request_latency_seconds', (now - startedMs) / 1000);
}
