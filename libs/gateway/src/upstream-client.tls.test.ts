import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { clientOf, MemoryReceiver, post } from './testing.ts';
import { type UpstreamClient } from './upstream-client.ts';

// Of a certificate for localhost alone, that nobody else trusts.
const [key, cert] = ['key', 'crt'].map((kind) =>
  readFileSync(join(import.meta.dirname, `testdata/localhost.${kind}`), 'utf8'),
) as [string, string];

const trusted = getCACertificates('default');
let server: Http2SecureServer;
let client: UpstreamClient;
let answer: (request: Http2ServerRequest, response: Http2ServerResponse) => void;

beforeAll(async () => {
  setDefaultCACertificates([...trusted, cert]);
  server = createSecureServer({ key, cert, allowHTTP1: true });
  server.on('request', (request, response) => answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = clientOf(`https://localhost:${(server.address() as AddressInfo).port}`);
});

afterAll(async () => {
  await client.destroy();
  server.close();
  setDefaultCACertificates(trusted);
});

describe('an upstream that speaks TLS, HTTP/2 among others', () => {
  it('is called over HTTP/1.1, and its headers are known', async () => {
    answer = (request, response) => {
      response.writeHead(400, { 'content-type': 'text/plain', 'set-cookie': ['a=1', 'b=2'] });
      response.end(request.httpVersion);
    };
    const receiver = new MemoryReceiver();
    await client.stream(post(), receiver);
    expect(receiver).toMatchObject({ status: 400, text: '1.1' });
    expect(receiver.headers.join()).toContain(
      'content-type,text/plain,set-cookie,a=1,set-cookie,b=2',
    );
  });

  it('is a fault when it breaks off', async () => {
    answer = (request, response) => {
      response.writeHead(200, {});
      response.write('a', () => request.socket.destroy());
    };
    const receiver = new MemoryReceiver();
    await expect(client.stream(post(), receiver)).rejects.toMatchObject({ fault: 'reset' });
    expect(receiver.text).toBe('a');
  });
});
