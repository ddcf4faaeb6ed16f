/** How the answers and requests of one model are treated. */
export interface ProxySettings {
  /** Name of the model at the upstreams; undefined leaves that of the caller. */
  readonly model: string | undefined;
  readonly withoutToolChoice: boolean;
  /** `light` checks the first byte of an answer and hands the rest on, `full` reads and repairs it, `off` does neither. */
  readonly normalise: 'off' | 'light' | 'full';
  /** Bytes of an answer; a longer one is 502, or cut when it has begun. */
  readonly maxAnswerBytes: number;
}

/** A request for an upstream. */
export interface ProxyRequest {
  readonly path: string;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly signal: AbortSignal;
}

/** Where an answer goes; nothing is sent before `start`. */
export interface ProxySink {
  start(status: number, headers: readonly string[]): void;
  /** False when the caller takes its time: hold back until `onDrain`. */
  write(chunk: Uint8Array): boolean;
  onDrain(callback: () => void): void;
  end(): void;
}
