import { editObject, type JsonDocument } from '@llm-d/json-document';

/** Fields that name hosts a worker would contact; only other workers may set them (design.md decision 13). */
const names = [
  'kv_transfer_params',
  'ec_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
];
const removed = Object.fromEntries(names.map((name) => [name, undefined]));

/** Removes transfer params that a client sent, at the top level and below `sampling_params.extra_args`. */
export function withoutClientTransferParams(body: JsonDocument): JsonDocument {
  const clean = names.some((name) => body.get(name)) ? body.with(removed) : body;
  const sampling = clean.get('sampling_params');
  const extra = sampling?.get('extra_args');
  if (!sampling || !extra || !names.some((name) => extra.get(name))) return clean;
  return clean.with({
    sampling_params: editObject(sampling, { extra_args: editObject(extra, removed) }),
  });
}
