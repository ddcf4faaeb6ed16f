import { type Readable } from 'node:stream';

/** Bytes that are sent as they are; a JsonRaw fits. */
export interface Payload {
  readonly byteLength: number;
  readonly chunks: readonly Uint8Array[];
}

/** One POST to an upstream. */
export interface UpstreamRequest {
  readonly path: string;
  /** Names and values in turn; a name may repeat. */
  readonly headers: readonly string[];
  readonly body: Payload;
  readonly signal: AbortSignal;
  /** Whether a second run does no harm, as with GET, so that a call on a connection that the peer had closed may be sent again. */
  readonly isRepeatable?: boolean;
  /** Hears of calls that were sent again. */
  readonly counts?: CallCounts;
  /** Called when the whole request is on its way, again when it is sent again; before, no upstream can act on it. */
  readonly onSent?: (() => void) | undefined;
}

/** What happened to a call on its way. */
export interface CallCounts {
  /** How often it was sent again on another connection. */
  retries?: number;
}

/** A body that is sent while it arrives from somewhere else, no faster than the upstream takes it. */
export interface ArrivingBody {
  /** Declared length; undefined sends it in chunks. */
  readonly byteLength: number | undefined;
  /** Destroyed when the call ends. A failure of its source aborts the call's signal. */
  readonly stream: Readable;
}

/** One call whose answer is handed on. */
export interface StreamRequest extends Omit<UpstreamRequest, 'body'> {
  /** POST when absent. */
  readonly method?: string;
  /** Undefined for a call without a body. */
  readonly body: Payload | ArrivingBody | undefined;
}

/** A whole answer; the body is unpacked, and cut at `maxErrorBytes` unless the status is 200. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** `performance.now()` when status and headers came. */
  readonly headersAt: number;
}

/** Lets the receiver of a streamed answer hold it back. */
export interface StreamFlow {
  pause(): void;
  resume(): void;
}

/** Takes a streamed answer as it arrives. */
export interface AnswerReceiver {
  /** Status and headers (names and values in turn). Returning false drops the body and ends the call well. */
  start(status: number, headers: readonly string[], flow: StreamFlow): boolean;
  data(chunk: Uint8Array): void;
}
