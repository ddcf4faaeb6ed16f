import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { HttpSink } from './http-sink.ts';

let server: Server;
let client: Socket;
let answer: string;
let clientClosed: Promise<unknown>;

/** A sink for a real request, whose client keeps everything it receives in `answer`. */
async function openSink(version = '1.1'): Promise<{ sink: HttpSink; response: ServerResponse }> {
  const asked = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  answer = '';
  client.on('data', (piece) => {
    answer += piece.toString('latin1');
  });
  client.on('error', (error) => {
    answer += `[${(error as NodeJS.ErrnoException).code}]`;
  });
  clientClosed = new Promise((resolve) => client.once('close', resolve));
  client.write(`GET / HTTP/${version}\r\nhost: x\r\n\r\n`);
  const [, response] = await asked;
  return { sink: new HttpSink(response, 'id-1'), response };
}

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  client.destroy();
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

/** Resolves when the client has received this text. */
async function received(text: string): Promise<void> {
  while (!answer.includes(text)) await once(client, 'data');
}

describe('HttpSink', () => {
  it('sends status, headers in order and bytes as they come', async () => {
    const { sink } = await openSink();
    expect(sink.isStarted).toBe(false);
    sink.start(201, ['X-Custom', 'A', 'set-cookie', 'a=1', 'set-cookie', 'b=2']);
    sink.write(Buffer.from('data: 1\n\n'));
    await received('data: 1\n\n');
    sink.write(Buffer.from('data: 2\n\n'));
    sink.end();
    await received('0\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 201 Created\r\nx-request-id: id-1\r\nX-Custom: A\r\n/);
    expect(answer).toContain('set-cookie: a=1\r\nset-cookie: b=2\r\n');
    expect(sink).toMatchObject({ isStarted: true, status: 201, sentBytes: 18 });
  });

  it("replaces an upstream's request id", async () => {
    const { sink } = await openSink();
    sink.start(200, ['X-Request-Id', 'id-1-decode', 'content-length', '0']);
    sink.end();
    await received('\r\n\r\n');
    expect(answer.match(/x-request-id: .*/gi)).toEqual(['x-request-id: id-1']);
  });

  it('tells when the client reads slower and when it has caught up', async () => {
    const { sink } = await openSink();
    client.pause();
    sink.start(200, []);
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    let accepted = 0;
    while (sink.write(chunk)) accepted++;
    expect(accepted).toBeLessThan(64);
    const drained = new Promise<void>((resolve) => {
      sink.onDrain(resolve);
    });
    client.resume();
    await drained;
    sink.end();
    await received('0\r\n\r\n');
  });

  it('cuts a chunked answer without its end, after what was written', async () => {
    const { sink } = await openSink();
    sink.start(200, []);
    sink.write(Buffer.from('half'));
    sink.write(Buffer.from('data: {"error":{}}\n\n'));
    sink.abort();
    await clientClosed;
    expect(answer).toContain('half');
    expect(answer).toContain('data: {"error":{}}');
    expect(answer).not.toContain('\r\n0\r\n\r\n');
  });

  it('cuts an answer with a length short of it', async () => {
    const { sink } = await openSink();
    sink.start(200, ['content-length', '100']);
    sink.write(Buffer.from('half'));
    sink.abort();
    await clientClosed;
    expect(answer).toMatch(/half$/);
  });

  it('resets a connection on which a close would look like a whole answer', async () => {
    const { sink } = await openSink('1.0');
    sink.start(200, []);
    sink.write(Buffer.from('half'));
    await received('half');
    sink.abort();
    await clientClosed;
    expect(answer).toMatch(/\[ECONNRESET\]$/);
  });

  it('cuts a client that does not read what is left', async () => {
    const { sink, response } = await openSink();
    client.pause();
    sink.start(200, []);
    while (sink.write(Buffer.alloc(1024 * 1024))) continue;
    const closed = once(response, 'close');
    sink.abort();
    await closed;
    expect(response.destroyed).toBe(true);
  });
});
