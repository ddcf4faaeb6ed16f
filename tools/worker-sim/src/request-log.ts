import { type JsonObject } from './exact-json.ts';

/** How one request ended. */
export interface Outcome {
  status: 'running' | 'finished' | 'refused' | 'aborted' | 'failed';
  httpStatus: number | undefined;
  /** The message of a refusal. */
  message: string | undefined;
  finishReason: string | undefined;
  completionTokens: number;
}

/** Where the KV of a prompt came from: `external` = pulled from a prefill pod, `local` = computed here. */
export interface KvSource {
  source: 'external' | 'local';
  pod: string | undefined;
  blocks: number;
}

/** Where one media embedding came from; `held` = this pod already had it. */
export interface EcSource {
  hash: string;
  source: 'external' | 'local' | 'held';
  peer: string | undefined;
}

/** One request as the worker saw it; what end-to-end tests read at `/admin/requests`. */
export interface RecordedRequest {
  sequence: number;
  at: string;
  ms: number | undefined;
  requestId: string;
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  bodyBytes: number;
  /** SHA-256 of the body as received, hex. */
  bodySha256: string;
  profile: string | undefined;
  prefer: string | undefined;
  phase: 'encode' | 'prefill' | 'decode' | undefined;
  model: string | undefined;
  isStreaming: boolean;
  maxTokens: number | undefined;
  promptTokens: number | undefined;
  promptDigests: string[];
  cachedTokens: number;
  images: { hash: string; offset: number; length: number; width?: number; height?: number }[];
  /** As received, numbers digit by digit. */
  kvTransferParams: JsonObject | undefined;
  ecTransferParams: JsonObject | undefined;
  /** What the answer carried. */
  answeredKvTransferParams: JsonObject | undefined;
  answeredEcTransferParams: JsonObject | undefined;
  kv: KvSource | undefined;
  ec: EcSource[];
  outcome: Outcome;
}

/** Requests remembered by a worker. */
export const recordedRequests = 1000;

/** A bounded ring of the latest requests, oldest first. */
export class RequestLog {
  #records: RecordedRequest[] = [];
  #sequence = 0;

  /** Opens a record; the handler fills it in while the request runs. */
  open(
    request: Pick<
      RecordedRequest,
      'requestId' | 'method' | 'path' | 'headers' | 'profile' | 'prefer'
    >,
  ): RecordedRequest {
    this.#sequence += 1;
    const record: RecordedRequest = {
      ...request,
      sequence: this.#sequence,
      at: new Date().toISOString(),
      ms: undefined,
      bodyBytes: 0,
      bodySha256: '',
      phase: undefined,
      model: undefined,
      isStreaming: false,
      maxTokens: undefined,
      promptTokens: undefined,
      promptDigests: [],
      cachedTokens: 0,
      images: [],
      kvTransferParams: undefined,
      ecTransferParams: undefined,
      answeredKvTransferParams: undefined,
      answeredEcTransferParams: undefined,
      kv: undefined,
      ec: [],
      outcome: {
        status: 'running',
        httpStatus: undefined,
        message: undefined,
        finishReason: undefined,
        completionTokens: 0,
      },
    };
    this.#records.push(record);
    if (this.#records.length > recordedRequests) this.#records.shift();
    return record;
  }

  /** The remembered requests, all or those of one request id. */
  list(requestId?: string): RecordedRequest[] {
    return requestId === undefined
      ? [...this.#records]
      : this.#records.filter((record) => record.requestId === requestId);
  }

  /** Forgets all. */
  clear(): void {
    this.#records = [];
  }
}
