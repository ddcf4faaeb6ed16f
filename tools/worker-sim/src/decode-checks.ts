import { ApiError } from './api-error.ts';
import { probePrefix } from './cached-prefix.ts';
import { type Engine } from './engine.ts';
import { type InferenceInput } from './inference-input.ts';
import { type Prompt } from './prompt.ts';

/**
 * A `uuid` stamped on a media part must be the hash of that part, or caches would be mixed up. Counts;
 * throws ApiError 400 in strict mode.
 */
export function checkUuids(
  engine: Engine,
  prompts: readonly Prompt[],
  uuids: readonly (string | undefined)[],
): void {
  const images = prompts[0]?.images ?? [];
  const wrong = uuids.findIndex(
    (uuid, index) => uuid !== undefined && uuid !== images[index]?.hash,
  );
  if (wrong === -1) return;
  engine.metrics.count('sim_uuid_mismatch_total');
  if (engine.tuning.ecStrict) {
    throw new ApiError(400, `uuid of media part ${wrong} is not the hash of its content`);
  }
}

/** The 412 gate inside the worker (deploy.md 2.8); off by default, as in vLLM. Throws ApiError 412. */
export function checkPreference(
  engine: Engine,
  prefer: string | undefined,
  input: InferenceInput,
  prompts: readonly Prompt[],
): void {
  const names = (prefer ?? '').split(',').map((part) => part.split(';')[0]?.trim());
  if (!names.some((name) => name?.toLowerCase() === 'if-available')) return;
  const { conditionalDecode, noncachedTokens, promptTokens } = engine.tuning;
  if (conditionalDecode === 'ignore') {
    engine.metrics.count('sim_prefer_total', { result: 'ignored' });
    return;
  }
  const total = prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  const cached = prompts.reduce(
    (sum, prompt) => sum + probePrefix(engine, input, prompt).tokens,
    0,
  );
  const isServed = total < promptTokens || total - cached < noncachedTokens;
  engine.metrics.count('sim_prefer_total', { result: isServed ? 'served' : 'refused' });
  if (isServed) return;
  throw new ApiError(412, 'the prompt is not cached here', {
    headers: { 'x-sim-cached-tokens': String(cached) },
  });
}
