import { jsonRaw } from '@llm-d/json-document';
import { type SerialKvConnector } from './kv-connector.ts';

const prefillParams = jsonRaw({ do_remote_decode: true, do_remote_prefill: false });
const decodeParams = jsonRaw({ do_remote_decode: false, do_remote_prefill: true });

/** Shared file system or object store: prefill writes KV blocks, decode finds them by the prompt's hash. */
export const sharedStorage: SerialKvConnector = {
  isConcurrent: false,
  isLeased: false,
  prefillParams: () => prefillParams,
  decodeParams: () => ({ params: decodeParams }),
};
