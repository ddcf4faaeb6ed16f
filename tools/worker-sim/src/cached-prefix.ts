import { type Engine } from './engine.ts';
import { type InferenceInput } from './inference-input.ts';
import { blockHashes, type Prompt } from './prompt.ts';

/** What this pod's prefix cache has of a prompt. */
export interface CachedPrefix {
  hashes: string[];
  /** Leading blocks found; never the one that holds the last token, which is always computed. */
  blocks: number;
  tokens: number;
  /** Blocks that could have been found. */
  cacheable: number;
}

/** Looks a prompt up without changing the cache. */
export function probePrefix(
  engine: Pick<Engine, 'cache' | 'config'>,
  input: Pick<InferenceInput, 'model' | 'cacheSalt'>,
  prompt: Prompt,
): CachedPrefix {
  const { blockSize } = engine.config;
  const hashes = blockHashes(prompt, { blockSize, salt: `${input.model}|${input.cacheSalt}` });
  const cacheable = Math.floor((prompt.tokenIds.length - 1) / blockSize);
  const blocks = Math.min(engine.cache.match(hashes), cacheable);
  return { hashes, blocks, tokens: blocks * blockSize, cacheable };
}

/** Looks a prompt up for computing, and counts query and hits in tokens as vLLM does. */
export function cachedPrefix(engine: Engine, input: InferenceInput, prompt: Prompt): CachedPrefix {
  const cached = probePrefix(engine, input, prompt);
  engine.metrics.count('vllm:prefix_cache_queries_total', {}, prompt.tokenIds.length);
  engine.metrics.count('vllm:prefix_cache_hits_total', {}, cached.tokens);
  return cached;
}
