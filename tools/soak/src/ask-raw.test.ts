import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { askRaw } from './ask-raw.ts';

let close = (): void => {};

afterEach(() => close());

/** Asks a server that writes this and keeps the connection, or closes it. */
async function ask(method: string, answer: string, isClosing = false) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => (isClosing ? socket.end(answer) : socket.write(answer)));
  }).listen(0, '127.0.0.1');
  close = () => server.close();
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const head = Buffer.from(`${method} / HTTP/1.0\r\nconnection: close\r\n\r\n`);
  return askRaw(`http://127.0.0.1:${port}`, { head, body: Buffer.alloc(0) }, 300);
}

const kept = 'HTTP/1.1 400 Bad\r\ncontent-length: 4\r\nConnection: keep-alive\r\n\r\n';

describe('a raw request', () => {
  it('gets an answer without what came before it', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc';
    const { status, body } = await ask('POST', `HTTP/1.1 100 Continue\r\n\r\n${answer}`, true);
    expect([status, body.toString()]).toEqual([200, 'abc']);
  });

  it('has status 0 when nothing comes', async () => {
    expect(await ask('CONNECT', '', true)).toMatchObject({ status: 0 });
  });

  it.each([
    ['POST', `${kept}abcd`],
    ['HEAD', kept],
  ])('by %s ends with a whole answer on a connection that is kept', async (method, answer) => {
    expect(await ask(method, answer)).toMatchObject({ status: 400 });
  });

  it.each([
    ['is not whole', `${kept}abc`],
    ['has no length and the connection stays', 'HTTP/1.1 200 OK\r\n\r\nabc'],
  ])('fails when the answer %s', async (_, answer) => {
    await expect(ask('POST', answer)).rejects.toThrow('no end of the answer within 300 ms');
  });
});
