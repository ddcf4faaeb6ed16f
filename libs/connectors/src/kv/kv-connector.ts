import { type JsonInput, type JsonSpan } from '@llm-d/json-document';
import { type BootstrapEdits } from './bootstrap.ts';

/** What decode gets of a hand-off, or why it gets nothing. */
export type DecodeParams =
  | { readonly params: JsonInput }
  /** `missing` names the fields that prefill's answer lacks; decode then computes the prompt itself. Empty: none are due. */
  | { readonly params: undefined; readonly missing: readonly string[] };

/** Decode is called after prefill has answered: the steps prefill and decode. */
export interface SerialKvConnector {
  readonly isConcurrent: false;
  /** `kv_transfer_params` of the prefill leg; undefined = no field. */
  prefillParams(): JsonInput | undefined;
  /** `kv_transfer_params` of the decode leg, made from the object that prefill answered, if it did. */
  decodeParams(answered: JsonSpan | undefined): DecodeParams;
  /** Whether a set of params is good for one decode call, within the lease only. */
  readonly isLeased: boolean;
}

/** Prefill answers only when decode has come, so both are in flight together: the step prefill-decode. */
export interface ConcurrentKvConnector {
  readonly isConcurrent: true;
  /**
   * Members of both bodies that bring the two pods together, new for every request; undefined removes one of the client's.
   *
   * @throws EndpointError when the reserved endpoint is no `host:port`.
   */
  bootstrap(endpoint: string, port: number): BootstrapEdits;
  /** Headers of a client, in lower case, that would send a leg to another rank than these members do. */
  readonly conflictingHeaders: readonly string[];
}

/** How the KV cache gets from a prefill pod to a decode pod: shapes only, no state. */
export type KvConnector = SerialKvConnector | ConcurrentKvConnector;
