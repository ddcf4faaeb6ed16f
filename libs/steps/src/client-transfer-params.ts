import { editObject, type JsonDocument } from '@llm-d/json-document';

/** Fields that name hosts a worker would contact; only other workers may set them (design.md decision 13). */
const atTop = [
  'kv_transfer_params',
  'ec_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
];
const inExtraArgs = ['kv_transfer_params', 'ec_transfer_params'];

/** Removes transfer params that a client sent, at the top level and below `sampling_params.extra_args`. */
export function withoutClientTransferParams(body: JsonDocument): JsonDocument {
  const given = atTop.filter((name) => body.get(name));
  const clean =
    given.length === 0
      ? body
      : body.with(Object.fromEntries(given.map((name) => [name, undefined])));
  const sampling = clean.get('sampling_params');
  const extra = sampling?.get('extra_args');
  if (!sampling || !extra || !inExtraArgs.some((name) => extra.get(name))) return clean;
  const kept = editObject(extra, Object.fromEntries(inExtraArgs.map((name) => [name, undefined])));
  return clean.with({ sampling_params: editObject(sampling, { extra_args: kept }) });
}
