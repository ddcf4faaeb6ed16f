/** What is wrong with a text: which rule, and where. */
export type JsonErrorReason =
  'syntax' | 'not-utf-8' | 'too-deep' | 'not-an-object' | 'duplicate-key' | 'lone-surrogate';

/** A text that is not the JSON document it should be. The message holds no part of the text but member names of ours. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  readonly reason: JsonErrorReason;
  /** Bytes before the first one that cannot belong to a valid document. */
  readonly offset: number;

  constructor(reason: JsonErrorReason, offset: number, message: string) {
    super(`${message} at byte ${offset}`);
    this.reason = reason;
    this.offset = offset;
  }
}
