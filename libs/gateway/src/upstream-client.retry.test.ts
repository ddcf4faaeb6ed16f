import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clientOf, MemoryReceiver, nextTurn, post } from './testing.ts';
import { type UpstreamClient } from './upstream-client.ts';
import { type CallCounts, type UpstreamRequest } from './upstream-request.ts';

/** What the peer does with a request: an answer, an end after the whole request, or an end at its first bytes. */
type Deed = 'answer' | 'close' | 'reset' | 'half' | 'early';

const whole = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

let server: Server;
let client: UpstreamClient;
let deeds: Deed[];
/** Connection of each request that arrived whole, counted from 0. */
let requests: number[];
let connections: number;
let idleMs: number;
let answer: string;

beforeEach(async () => {
  [deeds, requests, connections, idleMs, answer] = [[], [], 0, 0, whole];
  server = createServer(serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

afterEach(async () => {
  await client.destroy();
  server.close();
  await once(server, 'close');
});

/** Reads requests by their length, without an HTTP server's own ideas of keep-alive. */
function serve(socket: Socket): void {
  const connection = connections++;
  let missing = 0;
  let idle: NodeJS.Timeout | undefined;
  socket.on('error', () => {}).on('close', () => clearTimeout(idle));
  socket.on('data', (piece) => {
    clearTimeout(idle);
    if (deeds[0] === 'early') {
      deeds.shift();
      socket.resetAndDestroy();
      return;
    }
    if (missing === 0) {
      const text = piece.toString('latin1');
      const length = Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0);
      missing = text.indexOf('\r\n\r\n') + 4 + length;
    }
    missing -= piece.length;
    if (missing > 0) return;
    requests.push(connection);
    const deed = deeds.shift() ?? 'answer';
    if (deed === 'close') socket.destroy();
    else if (deed === 'reset') socket.resetAndDestroy();
    else if (deed === 'half') socket.end('HTTP/1.1 200 O');
    else socket.write(answer);
    if (deed === 'answer' && idleMs > 0) idle = setTimeout(() => socket.destroy(), idleMs);
  });
}

/** A call that tells how often it was sent again, and what it failed with. */
async function call(options: Partial<UpstreamRequest> = {}) {
  const counts: CallCounts = {};
  const request = { ...post(), ...options, counts };
  try {
    const { status } = await client.call(request);
    await nextTurn();
    return { status, counts };
  } catch (error) {
    return { error, counts };
  }
}

/** Leaves one idle connection. */
async function warmUp(): Promise<void> {
  expect(await call()).toEqual({ status: 200, counts: {} });
}

// cases.md C40
describe('C40: a call on a connection that the peer closes', () => {
  it.each(['close', 'reset'] as const)(
    'is sent again, once and on a new connection, when it may run twice: %s',
    async (deed) => {
      await warmUp();
      deeds = [deed];
      expect(await call({ isRepeatable: true })).toEqual({ status: 200, counts: { retries: 1 } });
      expect(requests).toEqual([0, 0, 1]);
    },
  );

  it.each(['close', 'reset'] as const)(
    'fails when the peer may have run it and must not twice: %s',
    async (deed) => {
      await warmUp();
      deeds = [deed];
      expect(await call()).toMatchObject({ error: { fault: 'reset' }, counts: {} });
      expect(requests).toEqual([0, 0]);
    },
  );

  it('is sent again in any case when the peer cannot have got the whole of it', async () => {
    await warmUp();
    deeds = ['early'];
    const piece = Buffer.alloc(1_048_576);
    const chunks = Array.from({ length: 32 }, () => piece);
    const body = { byteLength: 32 * piece.length, chunks };
    expect(await call({ body })).toEqual({ status: 200, counts: { retries: 1 } });
    expect(requests).toEqual([0, 1]);
  });

  it('fails when its second try fails too', async () => {
    await warmUp();
    deeds = ['close', 'close'];
    expect(await call({ isRepeatable: true })).toMatchObject({
      error: { fault: 'reset' },
      counts: { retries: 1 },
    });
    expect(requests).toEqual([0, 0, 1]);
  });

  it('is not sent again when it was the first on its connection', async () => {
    deeds = ['close'];
    expect(await call({ isRepeatable: true })).toMatchObject({ error: { fault: 'reset' } });
    expect(requests).toEqual([0]);
  });

  it('is not sent again after the first byte of an answer', async () => {
    await warmUp();
    deeds = ['half'];
    expect(await call({ isRepeatable: true })).toMatchObject({ error: { fault: 'reset' } });
    expect(requests).toEqual([0, 0]);
  });

  it('is not sent again when its body came from somewhere else', async () => {
    await warmUp();
    deeds = ['close'];
    const body = { byteLength: 2, stream: Readable.from([Buffer.from('{}')]) };
    const request = { ...post(), body, isRepeatable: true };
    await expect(client.stream(request, new MemoryReceiver())).rejects.toMatchObject({
      fault: 'reset',
    });
    expect(requests).toEqual([0, 0]);
  });

  it('is not sent again for a caller that has left', async () => {
    await warmUp();
    deeds = ['close'];
    const reason = new Error('left');
    const leaving = new AbortController();
    server.once('connection', () => leaving.abort(reason));
    const { error } = await call({ isRepeatable: true, signal: leaving.signal });
    expect(error).toBe(reason);
    expect(requests).toEqual([0, 0]);
  });
});

describe('an idle connection', () => {
  it('is given up before the time at which the peer has closed one', async () => {
    idleMs = 600;
    await warmUp();
    while (requests.length < 2) {
      await sleep(650);
      await call();
    }
    await sleep(580);
    await call();
    await call();
    expect(requests).toEqual([0, 1, 2, 2]);
  });

  it('is kept when the peer closed another after a shorter time than servers wait', async () => {
    idleMs = 20;
    await warmUp();
    await sleep(60);
    idleMs = 0;
    await call();
    await sleep(100);
    await call();
    expect(requests).toEqual([0, 1, 1]);
  });

  it('is not used where the peer announces that it closes soon', async () => {
    answer = whole.replace('\r\n\r\n', '\r\nkeep-alive: timeout=1\r\n\r\n');
    await warmUp();
    await call();
    expect(requests).toEqual([0, 1]);
  });

  it('is one of no more than are allowed', async () => {
    await client.destroy();
    const { port } = server.address() as AddressInfo;
    client = clientOf(`http://127.0.0.1:${port}`, { maxIdleConnections: 2 });
    const four = (): Promise<unknown> => Promise.all([call(), call(), call(), call()]);
    await four();
    await nextTurn();
    await four();
    // Those that are too many serve again for a moment.
    expect(connections).toBe(4);
    const open = (): Promise<number> =>
      new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
    while ((await open()) > 2) await nextTurn();
    await Promise.all([call(), call(), call()]);
    expect(connections).toBe(5);
  });
});
