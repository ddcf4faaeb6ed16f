import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createLogger } from '@llm-d/telemetry';
import { createService } from './create-service.ts';
import { type RunningService, startService } from './run-service.ts';

@Module({})
class EmptyModule {}

const logger = createLogger({ service: 'test', level: 1, destination: { write: () => {} } });
let running: RunningService;

async function start(readTimeoutMs: number, idleTimeoutMs?: number): Promise<void> {
  const app = await createService({
    module: EmptyModule,
    logger,
    bodyLimitBytes: 1024,
    readTimeoutMs,
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
  });
  running = await startService(app, { logger, host: '127.0.0.1', port: 0, shutdownTimeoutMs: 500 });
}

afterEach(() => running.stop());

const request = 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n';

async function openSocket(): Promise<Socket> {
  const socket = connect(Number(new URL(running.url).port), '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** One request and its answer on a connection that stays. */
async function askOn(socket: Socket): Promise<string> {
  socket.write(request);
  const [answer] = (await once(socket, 'data')) as [Buffer];
  return answer.toString();
}

describe('an idle connection', () => {
  it.each([
    { readTimeoutMs: 2_000, idleTimeoutMs: 5_000, announced: 'timeout=5' },
    { readTimeoutMs: 6_000, idleTimeoutMs: 5_000, announced: 'timeout=6' },
    { readTimeoutMs: 3_000, idleTimeoutMs: undefined, announced: 'timeout=3' },
  ])(
    'with read timeout $readTimeoutMs and idle timeout $idleTimeoutMs: $announced',
    async ({ readTimeoutMs, idleTimeoutMs, announced }) => {
      await start(readTimeoutMs, idleTimeoutMs);
      const socket = await openSocket();
      expect(await askOn(socket)).toMatch(new RegExp(`keep-alive: ${announced}\r\n`, 'i'));
      socket.destroy();
    },
  );

  it('C40: takes requests up to the announced end, without a single reset, and closes after it', async () => {
    await start(200, 1_000);
    const sockets = await Promise.all(Array.from({ length: 50 }, openSocket));
    await Promise.all(sockets.map(askOn));
    const answers = sockets.map(async (socket, i) => {
      // Around the announced end, as clients whose timer is a little late.
      await sleep(980 + i);
      return askOn(socket);
    });
    const heads = (await Promise.all(answers)).map((answer) => answer.split('\r\n', 1)[0]);
    expect(new Set(heads)).toEqual(new Set(['HTTP/1.1 200 OK']));
    await Promise.all(sockets.map((socket) => once(socket.resume(), 'close')));
  });
});
