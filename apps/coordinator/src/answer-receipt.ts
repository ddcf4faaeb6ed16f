import { type RequestContext } from '@llm-d/pipeline';
import { type AnswerExtras } from '@llm-d/service';
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
export class AnswerReceipt implements AnswerExtras {
  readonly #ctx: RequestContext;
  readonly #options: ReceiptOptions;
  #isEventStream = false;

  constructor(ctx: RequestContext, options: ReceiptOptions) {
    this.#ctx = ctx;
    this.#options = options;
  }

  headers(given: readonly string[]): string[] {
    const { hasReceipt, hasServerTiming } = this.#options;
    this.#isEventStream = isPlainEventStream(given);
    const added: string[] = [];
    if (hasServerTiming) added.push('server-timing', serverTiming(this.#ctx));
    if (hasReceipt && !this.#isEventStream) added.push(receiptHeader, receiptText(this.#ctx));
    return added;
  }

  lastBytes(): Uint8Array | undefined {
    if (!this.#options.hasReceipt || !this.#isEventStream) return undefined;
    // A comment after half a line would become part of it.
    if (this.#ctx.answerTail.bytes.at(-1) !== newline) return undefined;
    return Buffer.from(`: receipt ${receiptText(this.#ctx)}\n\n`);
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
