import { editObject, jsonRaw, type JsonSpan } from '@llm-d/json-document';
import { type DecodeParams, type SerialKvConnector } from './kv-connector.ts';

// The pod fills these in; they travel as null, not left out.
const prefillParams = jsonRaw({
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
});

/** A decode pod that gets `do_remote_prefill` without one of these ends its process (vLLM 0.32). */
const neededFields = [
  'remote_block_ids',
  'remote_engine_id',
  'remote_request_id',
  'remote_host',
  'remote_port',
] as const;

/** NIXL peer-to-peer RDMA: decode pulls the KV blocks straight from the prefill pod. */
export const nixl: SerialKvConnector = {
  isConcurrent: false,
  isLeased: true,
  prefillParams: () => prefillParams,
  decodeParams(answer): DecodeParams {
    const answered = answer?.withMembers();
    const given = new Set<string>();
    answered?.eachMember(({ name, value }) => {
      if (isGiven(value)) given.add(name);
      else given.delete(name);
    });
    const missing = neededFields.filter((field) => !given.has(field));
    if (missing.length > 0 || !answered) return { params: undefined, missing };
    return { params: editObject(answered, { do_remote_decode: false, do_remote_prefill: true }) };
  },
};

function isGiven(value: JsonSpan): boolean {
  switch (value.kind) {
    case 'array':
      return !value.isEmpty();
    case 'string':
      return value.byteLength > 2;
    case 'number':
      return true;
    default:
      return false;
  }
}
