import { type AdmittedCall } from './call.ts';
import { ApiError } from './api-error.ts';
import { type JsonObject } from './exact-json.ts';
import { type PhaseResult } from './phase-result.ts';

/**
 * Encodes the media of a request and answers one descriptor per hash. As vLLM 0.32's encoder-only pod:
 * empty text, `stop`, no completion tokens, whatever the request asks for (engine-verified.md 6).
 */
export async function encodePhase(call: AdmittedCall): Promise<PhaseResult> {
  const { engine, prompts, latency, reply, record, faults } = call;
  const { config, tuning } = engine;
  const images = prompts.flatMap((prompt) => prompt.images);
  const params: JsonObject = {};
  for (const image of images) {
    const isHeld = engine.heldEmbeddings.has(image.hash);
    // Tokens-in without processor output is only a reference to what this pod already holds.
    if (!image.isEncodable && !isHeld) throw new ApiError(500, 'Internal server error');
    await engine.clock.sleep(latency.encode(image.length), reply.signal);
    engine.heldEmbeddings.add(image.hash);
    if (config.ecConnector === 'nixl') {
      params[image.hash] = engine.embeddings.encode(image, engine.ecPeer, tuning.hiddenSize);
    } else if (config.ecConnector === 'shared-storage') {
      await engine.storage.storeEmbedding(image.hash, config.podName);
      params[image.hash] = { item_indices: [0], metadata: { image_grid_thw: image.gridThw } };
    }
  }
  if (faults.atStart('null-ec')) for (const hash of Object.keys(params)) params[hash] = null;
  const ecTransferParams = Object.keys(params).length > 0 ? params : null;
  record.answeredEcTransferParams = ecTransferParams ?? undefined;
  return {
    choices: [
      { index: 0, answer: { tokens: [], finishReason: 'stop', stopReason: null }, text: undefined },
    ],
    cachedTokens: 0,
    kvTransferParams: null,
    ecTransferParams,
    release: () => undefined,
  };
}
