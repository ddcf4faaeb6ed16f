import { type ServerResponse } from 'node:http';
import { type RequestContext } from '@llm-d/pipeline';
import { HttpSink } from '@llm-d/service';
import { receiptText, serverTiming } from './receipt.ts';

/** Header in which an answer that is not streamed carries its receipt. */
export const receiptHeader = 'x-llm-d-receipt';

/** Header with which a client asks for `server-timing`: value 1. */
export const serverTimingRequestHeader = 'x-llm-d-server-timing';

/** What a client gets to know about its request. */
export interface ReceiptOptions {
  readonly hasReceipt: boolean;
  readonly hasServerTiming: boolean;
}

const newline = 0x0a;

/** Adds to an answer what the request took: in headers, or in a comment at the end of an event stream. */
export class ReceiptSink extends HttpSink {
  readonly #options: ReceiptOptions;
  #isEventStream = false;
  /** The request that is answered; set before the pipeline runs. */
  ctx: RequestContext | undefined;

  constructor(response: ServerResponse, requestId: string, options: ReceiptOptions) {
    super(response, requestId);
    this.#options = options;
  }

  override start(status: number, headers: readonly string[]): void {
    const { ctx } = this;
    const { hasReceipt, hasServerTiming } = this.#options;
    this.#isEventStream = isPlainEventStream(headers);
    const added: string[] = [];
    if (ctx && hasServerTiming) added.push('server-timing', serverTiming(ctx));
    if (ctx && hasReceipt && !this.#isEventStream) added.push(receiptHeader, receiptText(ctx));
    super.start(status, [...headers, ...added]);
  }

  override end(isBroken = false): void {
    const { ctx } = this;
    // A comment after half a line would become part of it.
    if (ctx && this.#options.hasReceipt && this.#isEventStream && !isBroken) {
      if (ctx.answerTail.bytes.at(-1) === newline) {
        this.write(Buffer.from(`: receipt ${receiptText(ctx)}\n\n`));
      }
    }
    super.end();
  }
}

/** Whether lines can be added at the end. */
function isPlainEventStream(headers: readonly string[]): boolean {
  let isEventStream = false;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] ?? '').toLowerCase();
    if (name === 'content-type') isEventStream = /^text\/event-stream/i.test(headers[i + 1] ?? '');
    else if (name === 'content-length' || name === 'content-encoding') return false;
  }
  return isEventStream;
}
