import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clientOf, MemoryReceiver, nextTurn, post } from './testing.ts';
import { type UpstreamClient } from './upstream-client.ts';

let server: ScriptedServer;
let client: UpstreamClient;

beforeEach(async () => {
  server = await scriptedServer();
  client = clientOf(server.url);
});

afterEach(async () => {
  await client.destroy();
  await server.close();
});

/** The server sees a close a moment after the client has made it. */
async function noneIsOpen(): Promise<void> {
  while (server.openConnectionCount > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('connections', () => {
  it('are not capped: 300 streams are open at once and a further call gets through', async () => {
    const gate = Promise.withResolvers<void>();
    server.play({ chunks: ['first', { wait: gate.promise }, 'last'] });
    const receivers = Array.from({ length: 300 }, () => new MemoryReceiver());
    const streams = receivers.map((receiver) => client.stream(post(), receiver));
    await Promise.all(receivers.map((receiver) => receiver.seen('first')));
    expect(server.openConnectionCount).toBe(300);
    server.play({ text: 'ok' });
    expect((await client.call(post())).body.toString()).toBe('ok');
    gate.resolve();
    await Promise.all(streams);
    expect(receivers.every(({ text }) => text === 'firstlast')).toBe(true);
  });

  it('are used again, one call at a time', async () => {
    for (let i = 0; i < 5; i++) {
      await client.call(post());
      await nextTurn();
    }
    expect(server.connectionCount).toBe(1);
  });

  it('serve again after an error answer', async () => {
    server.play([{ status: 500, text: 'x'.repeat(30_000) }, {}]);
    await client.call(post());
    await nextTurn();
    await client.call(post());
    expect(server.connectionCount).toBe(1);
  });

  // nodejs/undici#3141 and many more: the peer's idle time ends just when a request is about to go out.
  it('that the peer closed while they were idle are left without a failed call', async () => {
    for (let i = 0; i < 20; i++) {
      expect((await client.call(post())).status).toBe(200);
      server.closeIdleConnections();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(server.calls).toHaveLength(20);
  });

  it('that close after the request was read give one fault and no second run', async () => {
    await client.call(post());
    server.play({ beforeHeaders: 'close' });
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'reset' });
    expect(server.calls).toHaveLength(2);
  });

  it('end after their idle time', async () => {
    await client.destroy();
    client = clientOf(server.url, { idleTimeoutMs: 50 });
    await client.call(post());
    await noneIsOpen();
    await client.call(post());
    expect(server.connectionCount).toBe(2);
  });

  it('let open calls finish when the client is closed, and take no more', async () => {
    const gate = Promise.withResolvers<void>();
    server.play({ chunks: ['a', { wait: gate.promise }, 'b'] });
    const receiver = new MemoryReceiver();
    const streamed = client.stream(post(), receiver);
    await receiver.seen('a');
    const closed = client.close();
    gate.resolve();
    await Promise.all([streamed, closed]);
    expect(receiver.text).toBe('ab');
    await expect(client.call(post())).rejects.toThrow();
    await noneIsOpen();
    await client.close();
  });

  it('are cut when the client is destroyed', async () => {
    server.play({ chunks: ['a', { end: 'hang' }] });
    const receiver = new MemoryReceiver();
    const streamed = client.stream(post(), receiver);
    await receiver.seen('a');
    await Promise.all([
      expect(streamed).rejects.toMatchObject({ fault: 'reset' }),
      client.destroy(),
    ]);
  });
});

describe('proxies of the environment', () => {
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY'];
  const before = new Map(names.map((name) => [name, process.env[name]]));

  afterEach(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });

  it('are not used', async () => {
    let asked = 0;
    const proxy = createServer((socket) => {
      asked++;
      socket.destroy();
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    for (const name of names) process.env[name] = `http://127.0.0.1:${port}`;
    const other = clientOf(server.url);
    expect((await other.call(post())).status).toBe(200);
    expect(asked).toBe(0);
    await other.destroy();
    proxy.close();
  });
});
