import { valueOf } from './header-list.ts';

/** Knows whether an event can be added to a stream, and what must come before it. */
export class StreamEnd {
  isEventStream = false;
  #last: Uint8Array = Buffer.from('\n\n');

  /** `isOpen`: the stream has begun before, so that this answer's length does not count. */
  begin(headers: readonly string[], isOpen: boolean): void {
    this.isEventStream =
      /^text\/event-stream/i.test(valueOf(headers, 'content-type') ?? '') &&
      valueOf(headers, 'content-encoding') === undefined &&
      (isOpen || valueOf(headers, 'content-length') === undefined);
  }

  note(chunk: Uint8Array): void {
    this.#last = chunk;
  }

  /** A cut may fall inside an event: a blank line closes it, so that the next one is read by itself. */
  get separator(): string {
    const end = Buffer.from(this.#last.subarray(-4)).toString('latin1');
    return end.endsWith('\n\n') || end.endsWith('\r\n\r\n') ? '' : '\n\n';
  }
}
