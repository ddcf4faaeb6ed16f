import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { type Socket } from 'node:net';
import { requestIdHeader } from '@llm-d/gateway';
import { toErrorResponse } from '@llm-d/pipeline';
import { type PendingBodies } from './upload.ts';
import { RequestError } from './request-error.ts';

/** OpenSSL's code for plain HTTP where a handshake was expected. */
export const plainHttp = 'ERR_SSL_HTTP_REQUEST';

/**
 * Answers what Node's HTTP parser refuses: broken syntax, too many header bytes, a request that
 * takes longer than the read timeout. A body belongs to a request that is known, so its reader
 * answers instead.
 */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  pending: PendingBodies,
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const refusal = describeClientError(error.code);
  const failBody = pending.get(socket);
  if (failBody) {
    failBody(refusal);
    return;
  }
  const requestId = randomUUID();
  const { status, headers, body } = toErrorResponse(refusal, requestId);
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  const all = [...headers, requestIdHeader, requestId, 'connection', 'close'];
  for (let i = 0; i + 1 < all.length; i += 2) lines.push(`${all[i]}: ${all[i + 1]}`);
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  socket.end(body, () => socket.destroy());
}

function describeClientError(code: string | undefined): RequestError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RequestError(408, 'REQUEST_TIMEOUT', 'the request took too long to arrive');
    case plainHttp:
      return new RequestError(400, 'TLS_REQUIRED', 'this port takes https alone');
    case 'HPE_HEADER_OVERFLOW':
      return new RequestError(431, 'HEADERS_TOO_LARGE', 'the request headers are too large');
    default:
      return new RequestError(400, 'INVALID_HTTP', 'the request is not valid HTTP');
  }
}
