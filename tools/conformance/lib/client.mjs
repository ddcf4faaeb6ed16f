/** Sends one request exactly as the case spells it and reports what came back, byte for byte. */
import { request as httpRequest } from 'node:http';

/** The bytes of the request body: `json`, `raw`, `base64`, or one of them filled up with blanks to `pad_to` bytes. */
export function bodyBytes(request) {
  let body;
  if (request.base64 !== undefined) body = Buffer.from(request.base64, 'base64');
  else if (request.raw !== undefined) body = Buffer.from(request.raw);
  else if (request.json !== undefined) body = Buffer.from(JSON.stringify(request.json));
  else return undefined;
  return request.pad_to
    ? Buffer.concat([body, Buffer.alloc(request.pad_to - body.length, ' ')])
    : body;
}

export function send(port, request) {
  const body = bodyBytes(request);
  const headers = { ...(body ? { 'content-type': 'application/json' } : {}), ...request.headers };
  for (const [name, value] of Object.entries(headers)) if (value === null) delete headers[name];
  if (body && request.chunked !== true) headers['content-length'] = String(body.length);
  return new Promise((resolve) => {
    const pieces = [];
    const result = { ended: 'none' };
    const finish = () => {
      clearTimeout(timer);
      result.body = Buffer.concat(pieces);
      resolve(result);
    };
    const call = httpRequest(
      {
        host: '127.0.0.1',
        port,
        method: request.method ?? 'POST',
        path: request.path ?? '/v1/chat/completions',
        headers,
        agent: false,
      },
      (response) => {
        result.status = response.statusCode;
        result.headers = response.headers;
        result.ended = 'aborted';
        response.on('data', (piece) => {
          result.firstPieceAt ??= performance.now();
          pieces.push(piece);
        });
        response.on('end', () => {
          if (response.complete) result.ended = 'complete';
        });
        response.on('error', () => {});
        response.on('close', finish);
      },
    );
    const timer = setTimeout(() => {
      result.ended = 'timeout';
      call.destroy();
    }, request.timeout_ms ?? 20_000);
    call.on('error', () => {
      if (result.status === undefined) finish();
    });
    if (request.abort_after_ms !== undefined) {
      setTimeout(() => {
        call.destroy();
        result.ended = 'left';
        finish();
      }, request.abort_after_ms);
    }
    if (request.stall_after !== undefined) call.write(body.subarray(0, request.stall_after));
    else call.end(body);
  });
}
