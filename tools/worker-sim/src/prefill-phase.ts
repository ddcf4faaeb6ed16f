import { randomUUID } from 'node:crypto';
import { type Answer } from './answer-text.ts';
import { ApiError } from './api-error.ts';
import { awaitDecode } from './bootstrap.ts';
import { type AdmittedCall } from './call.ts';
import { fetchEmbeddings } from './ec-transfer.ts';
import { type JsonObject } from './exact-json.ts';
import { cachedPrefix } from './cached-prefix.ts';
import { type PhaseResult } from './phase-result.ts';
import { type Prompt, promptDigest } from './prompt.ts';

/** The one token of a prefill; coordinators throw it away. */
const onlyToken: Answer = {
  tokens: [{ text: 'I', id: 40 }],
  finishReason: 'length',
  stopReason: null,
};

/**
 * Computes a prompt for a decode pod: fetches its embeddings, leases its blocks and answers where they
 * lie. Two sequences pin two block sets and the last one is answered, as vLLM 0.32 does.
 */
export async function prefillPhase(call: AdmittedCall): Promise<PhaseResult> {
  const { engine, input, prompts, latency, reply, record } = call;
  let cachedTokens = 0;
  let params: JsonObject | null = null;
  for (const [promptIndex, prompt] of prompts.entries()) {
    await getEmbeddings(call, prompt);
    const cached = cachedPrefix(engine, input, prompt);
    await engine.clock.sleep(latency.prefill(prompt.tokenIds.length - cached.tokens), reply.signal);
    engine.metrics.count(
      'vllm:prompt_tokens_by_source_total',
      { source: 'local_compute' },
      prompt.tokenIds.length - cached.tokens,
    );
    cachedTokens += cached.tokens;
    for (let sequence = 0; sequence < input.n; sequence += 1) {
      const index = promptIndex * input.n + sequence;
      params = await handOver(call, prompt, cached.tokens, input.n > 1 ? index : undefined);
    }
    engine.cache.insert(cached.hashes);
  }
  params = withFaults(call, params);
  record.answeredKvTransferParams = params ?? undefined;
  const sequences = prompts.length * input.n;
  return {
    choices: Array.from({ length: sequences }, (_, index) => ({
      index,
      answer: onlyToken,
      text: input.wantsText ? 'I' : undefined,
    })),
    cachedTokens,
    kvTransferParams: params,
    ecTransferParams: null,
    release: () => undefined,
  };
}

async function getEmbeddings(call: AdmittedCall, prompt: Prompt): Promise<void> {
  const { engine, input, record, latency, reply } = call;
  if (prompt.images.length === 0 && !input.ecTransferParams) return;
  const sources = await fetchEmbeddings(prompt.images, input.ecTransferParams, {
    config: { ...engine.tuning, ecConnector: engine.config.ecConnector },
    agent: engine.agent,
    storage: engine.storage,
    held: engine.heldEmbeddings,
    isTokensIn: input.api === 'generate',
    count: (result) => engine.metrics.count('sim_ec_pull_total', { result }),
  });
  record.ec.push(...sources);
  for (const { hash, source } of sources) {
    if (source !== 'local') continue;
    engine.metrics.count('sim_local_encode_total');
    const image = prompt.images.find((candidate) => candidate.hash === hash);
    await engine.clock.sleep(latency.encode(image?.length ?? 0), reply.signal);
  }
}

async function handOver(
  call: AdmittedCall,
  prompt: Prompt,
  cachedTokens: number,
  sequence: number | undefined,
): Promise<JsonObject | null> {
  const { engine, engineRequestId, input } = call;
  const { kvConnector, blockSize, podName } = engine.config;
  if (kvConnector === 'sglang') {
    await awaitDecode(call, prompt);
    return null;
  }
  // Without the flag a pod of several roles prefills for itself and hands nothing over.
  if (kvConnector === 'none' || input.kvTransferParams?.['do_remote_decode'] !== true) return null;
  if (kvConnector === 'shared-storage') {
    await engine.storage.storeKv(prompt, blockSize, podName);
    return null;
  }
  const blocks = Math.ceil(prompt.tokenIds.length / blockSize);
  if (!engine.cache.pin(blocks)) {
    throw new ApiError(503, 'No free KV blocks', { headers: { 'retry-after': '1' } });
  }
  return engine.leases.grant(
    {
      requestId: sequence === undefined ? engineRequestId : `${sequence}_${engineRequestId}`,
      digest: promptDigest(prompt),
      tokens: prompt.tokenIds.length,
      cachedTokens,
    },
    blocks,
    engine.kvPeer,
  );
}

function withFaults(
  { engine, faults }: AdmittedCall,
  params: JsonObject | null,
): JsonObject | null {
  if (!params) return null;
  if (faults.atStart('lease-expire')) engine.leases.end(params, 'expired');
  if (faults.atStart('wrong-engine')) return { ...params, remote_engine_id: randomUUID() };
  return faults.atStart('drop-kv-params') ? null : params;
}
