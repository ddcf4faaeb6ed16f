import { editObject, type JsonDocument, type JsonSpan } from '@llm-d/json-document';

/** Fields that name hosts a worker would contact; only other workers may set them (design.md decision 13). */
const names = [
  'kv_transfer_params',
  'ec_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
];
const removed = Object.fromEntries(names.map((name) => [name, undefined]));

/**
 * Removes transfer params that a client sent: at the top level, below `sampling_params.extra_args`, and in `vllm_xargs`,
 * which vLLM copies into the extra arguments of a chat or completions request.
 */
export function withoutClientTransferParams(body: JsonDocument): JsonDocument {
  let clean = isGivenIn(body) ? body.with(removed) : body;
  const sampling = clean.get('sampling_params');
  const extra = sampling?.get('extra_args');
  if (sampling && extra && isGivenIn(extra)) {
    const edits = { extra_args: editObject(extra, removed) };
    clean = clean.with({ sampling_params: editObject(sampling, edits) });
  }
  const vllm = clean.get('vllm_xargs');
  if (vllm && isGivenIn(vllm)) clean = clean.with({ vllm_xargs: editObject(vllm, removed) });
  return clean;
}

const isGivenIn = (object: JsonDocument | JsonSpan): boolean =>
  names.some((name) => object.get(name));
