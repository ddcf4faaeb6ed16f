import { type IncomingMessage } from 'node:http';
import { type Socket } from 'node:net';
import { RequestError } from './request-error.ts';

/** Who waits for more of an upload, by connection: Node reports a slow or broken one by socket. */
export type PendingBodies = WeakMap<Socket, (error: Error) => void>;

/** Hears how large a body is while it is read. */
export interface BodyMeter {
  /** The body has so many bytes by now, or is announced to have them. Returns the error that refuses it. */
  hold(bodyBytes: number): RequestError | undefined;
}

/** Whether a request announces a body, if only an empty one. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** The length that the client declared; undefined when it sends chunks. */
export function declaredBytes({ headers }: IncomingMessage): number | undefined {
  const declared = headers['content-length'];
  return declared === undefined ? undefined : Number(declared);
}

/** The refusal of a body over the limit. */
export function tooLarge(limitBytes: number): RequestError {
  return new RequestError(
    413,
    'REQUEST_TOO_LARGE',
    `the request body is larger than the limit of ${limitBytes} bytes`,
  );
}

/** The end of an upload that the client cut off. */
export function incomplete(): RequestError {
  return new RequestError(400, 'REQUEST_BODY_INCOMPLETE', 'the request body ended early');
}
