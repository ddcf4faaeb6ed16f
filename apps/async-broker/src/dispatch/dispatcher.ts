import { decodeContent, TransportError, UpstreamClient } from '@llm-d/gateway';
import { type Attempt } from './attempt.ts';
import { CallEnded, faultOf } from './call-ended.ts';

/** Where requests are sent and how long one attempt may take. */
export interface DispatchTarget {
  /** Origin of the coordinator's internal entry, with an optional path prefix. */
  readonly address: string;
  readonly connectTimeoutMs: number;
  /** From the first byte sent to the last one received. */
  readonly attemptTimeoutMs: number;
  readonly maxAnswerBytes: number;
}

/** One attempt. */
export interface DispatchCall {
  /** The path that the client asked for. */
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  /** The client's bytes. */
  readonly body: Buffer;
  /** Until the deadline of the request. */
  readonly remainingMs: number;
  /** Ends the call; a reason that is a `CallEnded` says why. */
  readonly signal: AbortSignal;
  /** Called when status and headers are there. */
  readonly onAnswer?: () => void;
}

const idleTimeoutMs = 4_000;

/**
 * Sends requests to the coordinator and reads their answers whole, streamed ones included: the stored result is the
 * bytes and the content type that came.
 */
export class Dispatcher {
  readonly #target: DispatchTarget;
  readonly #client: UpstreamClient;

  constructor(target: DispatchTarget) {
    this.#target = target;
    this.#client = new UpstreamClient({
      address: target.address,
      connectTimeoutMs: target.connectTimeoutMs,
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
      idleTimeoutMs,
      callTimeoutMs: 0,
      maxAnswerBytes: target.maxAnswerBytes,
    });
  }

  /** Makes one attempt. Resolves however it ends; never rejects for what the target or the clock does. */
  async attempt(call: DispatchCall): Promise<Attempt> {
    const { attemptTimeoutMs } = this.#target;
    const { remainingMs, signal } = call;
    if (signal.aborted) return { fault: faultOf(signal.reason) };
    if (remainingMs <= 0) return { fault: 'deadline' };
    const own = new AbortController();
    const fault = remainingMs <= attemptTimeoutMs ? 'deadline' : 'attempt-timeout';
    const timer = setTimeout(
      () => own.abort(new CallEnded(fault)),
      Math.min(remainingMs, attemptTimeoutMs),
    );
    try {
      return await this.#send(call, AbortSignal.any([signal, own.signal]), own);
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    await this.#client.destroy();
  }

  async #send(call: DispatchCall, signal: AbortSignal, own: AbortController): Promise<Attempt> {
    const { maxAnswerBytes } = this.#target;
    const chunks: Uint8Array[] = [];
    let [status, length] = [0, 0];
    let received: readonly string[] = [];
    const header = (name: string): string | undefined => find(received, name);
    try {
      await this.#client.stream(
        {
          path: call.path,
          headers: call.headers,
          body: { byteLength: call.body.length, chunks: [call.body] },
          signal,
        },
        {
          start(code, rawHeaders) {
            status = code;
            received = rawHeaders;
            call.onAnswer?.();
            return true;
          },
          data(chunk) {
            length += chunk.length;
            if (length <= maxAnswerBytes) chunks.push(chunk);
            else own.abort(new CallEnded('too-large'));
          },
        },
      );
      const packed = Buffer.concat(chunks);
      const encoding = header('content-encoding');
      return {
        status,
        contentType: header('content-type'),
        // Nobody asked for a coding; one that comes all the same would be lost on the reader of the result.
        body: encoding ? await decodeContent(packed, encoding, maxAnswerBytes) : packed,
        retryAfter: header('retry-after'),
        droppedReason: header('x-llm-d-request-dropped-reason'),
      };
    } catch (error) {
      if (signal.aborted) return { fault: faultOf(signal.reason) };
      if (!(error instanceof TransportError)) throw error;
      if (error.fault === 'answer-too-large') return { fault: 'too-large' };
      return { fault: status === 0 ? 'connect' : 'broken' };
    }
  }
}

function find(rawHeaders: readonly string[], name: string): string | undefined {
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) return rawHeaders[i + 1];
  }
  return undefined;
}
