import { connect } from 'node:net';
import { type RawRequest } from './mutate-headers.ts';

/** What came back on a connection of its own; status 0 when it was closed without an answer. */
export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: Buffer;
}

/** An answer to HTTP/1 bytes; rejects when the connection stays open without an end of the answer. */
export function askRaw(url: string, request: RawRequest, limitMs: number): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname);
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no end of the answer within ${limitMs} ms`));
    }, limitMs);
    const isHead = request.head.toString('latin1', 0, 5) === 'HEAD ';
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      // Of an HTTP/1.0 request that says both `close` and `keep-alive`, Node keeps the connection.
      if (isWholeAndKept(lastAnswer(Buffer.concat(chunks)), isHead)) socket.destroy();
    });
    // A refused upload may end with a reset after the answer.
    socket.on('error', () => {});
    socket.once('close', () => {
      clearTimeout(timer);
      resolve(lastAnswer(Buffer.concat(chunks)));
    });
    socket.write(request.head);
    socket.write(request.body);
  });
}

/** Leaves out `100 Continue`. */
function lastAnswer(bytes: Buffer): RawAnswer {
  const end = bytes.indexOf('\r\n\r\n');
  const head = bytes.toString('latin1', 0, Math.max(0, end));
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0);
  const body = bytes.subarray(end + 4);
  return status === 100 ? lastAnswer(body) : { status, head, body };
}

function isWholeAndKept({ head, body }: RawAnswer, isHead: boolean): boolean {
  if (!/\r\nconnection: keep-alive/i.test(head)) return false;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
  return isHead || body.length >= length;
}
