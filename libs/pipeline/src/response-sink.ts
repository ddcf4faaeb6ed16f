/** Where an answer to the client goes: bytes as they come, with back-pressure. */
export interface ResponseSink {
  /** Whether status and headers are out; from then on no other answer can be given. */
  readonly isStarted: boolean;
  /**
   * Set while comments may go out before the answer (`server.stream_keepalive`). `begun`: an event stream has started
   * with them, so that `start` sends nothing and only events can follow.
   */
  readonly keepAlive?: 'armed' | 'begun' | undefined;
  /** Sends status and headers; headers are names and values in turn. May be called once. */
  start(status: number, headers: readonly string[]): void;
  /** False when the client reads slower: wait for `onDrain` before writing more. */
  write(chunk: Uint8Array): boolean;
  /** Calls back every time the client has caught up after `write` returned false. */
  onDrain(callback: () => void): void;
  /** Ends an answer: a whole one, or one whose last event says that it is broken. */
  end(isBroken?: boolean): void;
  /** Gives whatever answer follows another request id, and further headers; names and values in turn. */
  identify?(requestId: string, headers: readonly string[]): void;
  /** Whether all of an ended answer was handed to the client's connection; false when it closed before. */
  sent?(): Promise<boolean>;
  /** Cuts an answer that cannot be completed, so that the client cannot take it for whole. */
  abort(): void;
}
