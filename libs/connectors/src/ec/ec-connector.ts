import { type JsonRaw, type JsonSpan } from '@llm-d/json-document';

/** Two encode answers describe the embedding of one media item differently; using either could mix up images. */
export class EcConflictError extends Error {
  override readonly name = 'EcConflictError';

  constructor() {
    super('two encode answers describe the same media item differently');
  }
}

/** How encoder embeddings get from encode pods to the prefill pod: shapes only, no state. */
export interface EcConnector {
  /** Whether encode answers must carry `ec_transfer_params`. */
  readonly collects: boolean;
  /**
   * `ec_transfer_params` of the prefill leg from those of the encode answers; undefined = no field.
   *
   * @throws EcConflictError
   */
  prefillParams(answered: readonly JsonSpan[]): JsonRaw | undefined;
}
