import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KeepAliveSink } from './keep-alive-sink.ts';

let server: Server;
let client: Socket;
let answer: string;

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
});

/** Timers that the test moves on; what sockets need goes on by itself. */
function fakeTimers(): void {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance'] });
}

afterEach(async () => {
  jest.useRealTimers();
  client.destroy();
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

async function open(
  intervalMs: number,
): Promise<{ sink: KeepAliveSink; response: ServerResponse }> {
  const asked = once(server, 'request');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  answer = '';
  client.setEncoding('utf8').on('data', (piece: string) => (answer += piece));
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  const [, response] = (await asked) as [unknown, ServerResponse];
  return { sink: new KeepAliveSink(response, 'id-1', intervalMs), response };
}

async function received(text: string, times = 1): Promise<void> {
  while (answer.split(text).length <= times) await once(client, 'data');
}

describe('a stream without an answer', () => {
  it('begins with comments, and goes on with the answer under the same headers', async () => {
    const { sink } = await open(20);
    expect(sink).toMatchObject({ keepAlive: 'armed', isStarted: false, status: 0 });
    await received(': keep-alive\n\n', 2);
    expect(sink).toMatchObject({ keepAlive: 'begun', isStarted: true, status: 200 });
    sink.start(200, ['content-type', 'text/event-stream', 'content-length', '9', 'x-pod', 'p']);
    expect(sink.keepAlive).toBeUndefined();
    sink.write(Buffer.from('data: 1\n\n'));
    sink.end();
    await received('0\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\nx-request-id: id-1\r\n/);
    expect(answer).toContain('content-type: text/event-stream');
    expect(answer).not.toMatch(/x-pod|content-length/);
    expect(answer.split('HTTP/1.1')).toHaveLength(2);
  });

  it('has none when the answer comes in time', async () => {
    fakeTimers();
    const { sink } = await open(40);
    sink.start(201, ['x-pod', 'p']);
    jest.advanceTimersByTime(100);
    sink.end();
    await received('0\r\n\r\n');
    expect(answer).toContain('HTTP/1.1 201');
    expect(answer).toContain('x-pod: p');
    expect(answer).not.toContain('keep-alive\n');
  });

  it('has none after the client has left', async () => {
    fakeTimers();
    const { sink, response } = await open(30);
    const closed = once(response, 'close');
    client.destroy();
    await closed;
    jest.advanceTimersByTime(80);
    expect(sink).toMatchObject({ keepAlive: undefined, isStarted: false, sentBytes: 0 });
  });

  it.each(['end', 'abort'] as const)('has none after its %s', async (how) => {
    fakeTimers();
    const { sink } = await open(20);
    jest.advanceTimersByTime(20);
    await received(': keep-alive');
    sink[how]();
    const { sentBytes } = sink;
    jest.advanceTimersByTime(60);
    expect(sink.sentBytes).toBe(sentBytes);
  });
});
