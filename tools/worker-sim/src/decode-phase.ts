import { ApiError } from './api-error.ts';
import { type Choice } from './answer-shapes.ts';
import { joinRoom } from './bootstrap.ts';
import { modeText, planAnswer, reportText, splitWords } from './answer-text.ts';
import { cachedPrefix, type CachedPrefix } from './cached-prefix.ts';
import { type AdmittedCall } from './call.ts';
import { type JsonObject } from './exact-json.ts';
import { fatalDefect, pullKv } from './kv-transfer.ts';
import { type PhaseResult } from './phase-result.ts';
import { type Prompt, promptDigest } from './prompt.ts';
import { type KvSource } from './request-log.ts';
import { sharedBlocks } from './shared-storage.ts';

/** Ids at the end of a prompt that are turned back into words. */
const tailTokens = 96;

/**
 * Answers a prompt. Its KV comes from the prefill pod that the params name, from shared storage, or is
 * computed here, which counts as `sim_local_prefill_total`. Throws ApiError 500 when a transfer fails.
 */
export async function decodePhase(call: AdmittedCall): Promise<PhaseResult> {
  const { engine, input, prompts } = call;
  const pinned: number[] = [];
  const release = (): void => {
    for (const blocks of pinned.splice(0)) engine.cache.unpin(blocks);
  };
  try {
    const choices: Choice[] = [];
    let cachedTokens = 0;
    for (const prompt of prompts) {
      const blocks = Math.ceil(prompt.tokenIds.length / engine.config.blockSize);
      if (!engine.cache.pin(blocks)) {
        throw new ApiError(503, 'No free KV blocks', { headers: { 'retry-after': '1' } });
      }
      pinned.push(blocks);
      const cached = cachedPrefix(engine, input, prompt);
      const kv = await obtainKv(call, prompt, cached);
      call.record.kv = kv;
      cachedTokens += kv.source === 'external' ? 0 : cached.tokens;
      engine.cache.insert(cached.hashes);
      choices.push(...(await sequencesOf(call, prompt, kv, choices.length)));
    }
    return { choices, cachedTokens, kvTransferParams: null, ecTransferParams: null, release };
  } catch (error) {
    release();
    throw error;
  }
}

async function obtainKv(
  call: AdmittedCall,
  prompt: Prompt,
  cached: CachedPrefix,
): Promise<KvSource> {
  const { engine, input } = call;
  const params = input.kvTransferParams;
  const tokens = prompt.tokenIds.length;
  const wantsRemote = params?.['do_remote_prefill'] === true;
  if (engine.config.kvConnector === 'sglang') {
    return externalKv(call, tokens, await joinRoom(call, prompt));
  }
  if (engine.config.kvConnector === 'nixl' && params && wantsRemote) {
    const fatal = fatalDefect(params);
    if (fatal !== undefined) throw engine.die(`do_remote_prefill, but ${fatal}`);
    const pulled = await pullAll(call, prompt, params);
    if (pulled) return externalKv(call, tokens, pulled);
  }
  if (engine.config.kvConnector === 'shared-storage' && wantsRemote) {
    const { blockSize } = engine.config;
    const blocks = sharedBlocks(tokens, blockSize);
    const pod = await engine.storage.findKv(prompt, blockSize);
    if (pod !== undefined) {
      engine.metrics.count('sim_kv_pull_total', { result: 'ok' });
      return externalKv(call, tokens, { source: 'external', pod, blocks });
    }
    if (blocks === 0) return computeHere(call, prompt, cached, false);
  }
  // A prompt that this pod holds whole is not computed again.
  const isCached = cached.blocks > 0 && cached.blocks === cached.cacheable;
  return computeHere(call, prompt, cached, !isCached);
}

/** Pulls once per sequence: the second one reads released blocks, and a strict pod says so. */
async function pullAll(
  { engine, input }: AdmittedCall,
  prompt: Prompt,
  params: JsonObject,
): Promise<KvSource | undefined> {
  const { kvStrict, kvLoadFailure, pullTimeoutMs } = engine.tuning;
  const digest = promptDigest(prompt);
  let source: KvSource | undefined;
  for (let sequence = 0; sequence < input.n; sequence += 1) {
    const pull = await pullKv(engine.agent, params, digest, pullTimeoutMs);
    engine.metrics.count('sim_kv_pull_total', { result: pull.result });
    const isUnreachable = pull.result === 'unreachable' || pull.result === 'unknown-engine';
    // A real decode pod checks nothing but the address and the engine (engine-verified.md 4).
    if (pull.result === 'ok' || (!kvStrict && !isUnreachable)) {
      source = { source: 'external', pod: pull.pod, blocks: pull.blocks };
      continue;
    }
    engine.metrics.count('vllm:nixl_num_failed_transfers_total');
    if (kvLoadFailure === 'recompute') return undefined;
    throw new ApiError(500, `KV load failed: ${pull.result}: ${pull.detail}`);
  }
  return source;
}

async function externalKv(
  { engine, latency, reply }: AdmittedCall,
  tokens: number,
  kv: KvSource,
): Promise<KvSource> {
  await engine.clock.sleep(latency.kvTransfer(tokens), reply.signal);
  engine.metrics.count('vllm:external_prefix_cache_hits_total', {}, tokens);
  engine.metrics.count(
    'vllm:prompt_tokens_by_source_total',
    { source: 'external_kv_transfer' },
    tokens,
  );
  return kv;
}

async function computeHere(
  { engine, latency, reply, record }: AdmittedCall,
  prompt: Prompt,
  cached: CachedPrefix,
  isCounted: boolean,
): Promise<KvSource> {
  const computed = prompt.tokenIds.length - cached.tokens;
  if (isCounted) {
    engine.metrics.count('sim_local_prefill_total');
    for (const { hash, isEncodable } of prompt.images) {
      const isHeld = engine.heldEmbeddings.has(hash);
      if (!isEncodable && !isHeld) throw new ApiError(500, 'Internal server error');
      record.ec.push({ hash, source: isHeld ? 'held' : 'local', peer: undefined });
      if (!isHeld) engine.metrics.count('sim_local_encode_total');
    }
  }
  engine.metrics.count('vllm:prompt_tokens_by_source_total', { source: 'local_compute' }, computed);
  engine.metrics.count(
    'vllm:prompt_tokens_by_source_total',
    { source: 'local_cache_hit' },
    cached.tokens,
  );
  await engine.clock.sleep(latency.prefill(computed), reply.signal);
  return { source: 'local', pod: undefined, blocks: cached.blocks };
}

async function sequencesOf(
  { engine, input }: AdmittedCall,
  prompt: Prompt,
  kv: KvSource,
  firstIndex: number,
): Promise<Choice[]> {
  const { tuning } = engine;
  if (input.forcedTool !== undefined) return toolCalls(input.n, firstIndex, input.forcedTool);
  const room = tuning.maxModelLen - prompt.tokenIds.length;
  const counted = Math.min(input.maxTokens ?? tuning.countTokens, room);
  const promptText = await tailText(engine, prompt);
  const text = modeText(tuning, reportText(prompt, kv, promptText), promptText, counted);
  const isTokensOut = input.api === 'generate';
  const answer = await planAnswer(text, input, room, async (kept) => {
    // Mode `count` promises one token per word, on every API.
    if (!isTokensOut || tuning.mode === 'count') return splitWords(kept);
    const ids = await (await engine.reader()).tokenize(kept);
    return [...ids].map((id) => ({ id, text: '' }));
  });
  return Promise.all(
    Array.from({ length: input.n }, async (_, sequence) => ({
      index: firstIndex + sequence,
      answer,
      text:
        isTokensOut && input.wantsText
          ? await (
              await engine.reader()
            ).detokenize(Uint32Array.from(answer.tokens, ({ id }) => id))
          : undefined,
    })),
  );
}

/** A fixed call without arguments, when the request leaves no choice but a tool. */
const toolCalls = (n: number, firstIndex: number, tool: string): Choice[] =>
  Array.from({ length: n }, (_, sequence) => ({
    index: firstIndex + sequence,
    answer: { tokens: [{ text: '{}', id: 0 }], finishReason: 'tool_calls', stopReason: null, tool },
    text: undefined,
  }));

async function tailText(engine: AdmittedCall['engine'], prompt: Prompt): Promise<string> {
  if (engine.tuning.mode !== 'report' && engine.tuning.mode !== 'echo') return '';
  if (prompt.text !== undefined) return prompt.text;
  return (await engine.reader()).detokenize(prompt.tokenIds.slice(-tailTokens));
}
