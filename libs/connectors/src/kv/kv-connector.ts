import { type JsonInput, type JsonSpan } from '@llm-d/json-document';

/** What decode gets of a hand-off, or why it gets nothing. */
export type DecodeParams =
  | { readonly params: JsonInput }
  /** `missing` names the fields that prefill's answer lacks; decode then computes the prompt itself. */
  | { readonly params: undefined; readonly missing: readonly string[] };

/** How the KV cache gets from a prefill pod to a decode pod: shapes only, no state. */
export interface KvConnector {
  /** `kv_transfer_params` of the prefill leg. */
  prefillParams(): JsonInput;
  /** `kv_transfer_params` of the decode leg, made from the object that prefill answered, if it did. */
  decodeParams(answered: JsonSpan | undefined): DecodeParams;
  /** Whether a set of params is good for one decode call, within the lease only. */
  readonly isLeased: boolean;
}
