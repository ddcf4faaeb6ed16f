import { HttpSink, type Lifecycle } from '@llm-d/service';
import { type FastifyReply, type FastifyRequest } from 'fastify';

import { type AnswerSink } from './model-backend.ts';

/** Writes an answer to the caller. Until it starts, the reply may still be used for an error. */
export class ReplySink implements AnswerSink {
  private readonly reply: FastifyReply;
  private readonly sink: HttpSink;
  /** Of the answer that was started; undefined before. */
  mode: string | undefined;
  private isClosed = false;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.reply = reply;
    this.sink = new HttpSink(reply.raw, request.id);
  }

  /** The status that was sent; 0 before. */
  get status(): number {
    return this.sink.status;
  }

  /** Refuses an answer that comes too late. */
  close(): void {
    this.isClosed = true;
  }

  start(status: number, headers: readonly string[]): void {
    if (this.isClosed) throw new Error('the answer comes too late');
    this.mode = headers[headers.indexOf('x-render-mode') + 1];
    this.reply.hijack();
    this.sink.start(status, headers);
  }

  write(chunk: Uint8Array): boolean {
    return this.sink.write(chunk);
  }

  onDrain(callback: () => void): void {
    this.sink.onDrain(callback);
  }

  end(): void {
    this.sink.end();
  }

  sent(): Promise<boolean> {
    return this.sink.sent();
  }

  /** Cuts an answer that cannot be completed: a broken one must not look whole. */
  cut(): void {
    this.reply.raw.destroy();
  }
}

/** Aborts when the caller closes its connection before the answer is complete, or when the process has to go. */
export function callerGone(reply: FastifyReply, lifecycle: Lifecycle): AbortSignal {
  const gone = new AbortController();
  const remove = lifecycle.onCut(() => {
    gone.abort();
  });
  reply.raw.once('close', () => {
    remove();
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}
