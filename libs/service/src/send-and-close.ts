import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type ErrorResponse } from '@llm-d/pipeline';
import { type PendingBodies } from './upload.ts';

/** Longest wait for a client to notice an answer that came before the end of its upload. */
const lingerMs = 5_000;

/**
 * Answers a request; when its body has not been read, closes the connection. A socket closed with
 * unread bytes is reset, and the reset can overtake the answer, so the rest of the upload is thrown away
 * first, up to `lingerBytes` and five seconds; 0 when the client cannot be sending.
 */
export function sendAndClose(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: ErrorResponse,
  lingerBytes: number,
  pending: PendingBodies,
): void {
  if (!hasUnreadBody(request)) {
    response.writeHead(status, [...headers]).end(body);
    return;
  }
  response.writeHead(status, [...headers, 'connection', 'close']);
  if (lingerBytes === 0 || request.destroyed) {
    response.end(body);
    return;
  }
  response.write(body);
  discardUpload(request, lingerBytes, pending, () => response.end());
}

/**
 * Throws the rest of an upload away and calls back at its end, or after `limitBytes` or five seconds.
 */
export function discardUpload(
  request: IncomingMessage,
  limitBytes: number,
  pending: PendingBodies,
  onDone: () => void,
): void {
  let discardedBytes = 0;
  const timer = setTimeout(finish, lingerMs);
  function finish(): void {
    clearTimeout(timer);
    pending.delete(request.socket);
    request.off('data', onData).off('end', finish).off('close', finish);
    onDone();
  }
  function onData(chunk: Buffer): void {
    discardedBytes += chunk.length;
    if (discardedBytes > limitBytes) finish();
  }
  pending.set(request.socket, finish);
  request.on('data', onData).on('end', finish).on('close', finish).resume();
}

/** Whether more of an upload is to come. A request without a body counts as incomplete until its handler returns. */
export function hasUnreadBody({ complete, headers }: IncomingMessage): boolean {
  const hasBody =
    headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return hasBody && !complete;
}
