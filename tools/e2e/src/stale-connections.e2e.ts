import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { chatOf, drawImage, until } from '@llm-d/soak';
import { type Answer, ask } from './ask.ts';
import { type CoordinatorProcess, runCoordinator } from './coordinator-process.ts';

// cases.md C40: nodejs/undici#3141, #5450, #5606; smg-project/smg#2162.

/** Rounds of the short form; the faults of the case show within about two hundred. */
const rounds = 12;
const idleMs = 1_000;

type Phase = 'render' | 'encode' | 'prefill' | 'decode';

const answers: Record<Phase, object> = {
  render: {
    token_ids: [1, 2, 3],
    features: {
      mm_hashes: { image: ['h'] },
      mm_placeholders: { image: [{ offset: 1, length: 1 }] },
      kwargs_data: { image: [null] },
    },
  },
  encode: {},
  prefill: {},
  decode: { id: 'x', choices: [] },
};

let upstream: Server;
let coordinator: CoordinatorProcess;
let url: string;
/** Phases in order of arrival. */
let calls: Phase[];
/** Whether a call is read whole and its connection closed then. */
let closes: (phase: Phase) => boolean;

beforeEach(async () => {
  [calls, closes] = [[], () => false];
  upstream = createServer({ keepAliveTimeout: idleMs, keepAliveTimeoutBuffer: 0 });
  upstream.on('request', (request, response) => {
    const isRender = request.url?.endsWith('/render') === true;
    const phase = isRender ? 'render' : (request.headers['epp-profile'] as Phase);
    void buffer(request).then(() => {
      calls.push(phase);
      if (closes(phase)) {
        request.socket.destroy();
        return;
      }
      const body = JSON.stringify(answers[phase]);
      // Without a header of its own Node announces when it will close.
      const headers = { connection: 'keep-alive', 'content-length': body.length };
      response.writeHead(200, { ...headers, 'content-type': 'application/json' }).end(body);
    });
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const address = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  coordinator = runCoordinator({
    server: { listen_addr: '127.0.0.1:0', metrics_port: 0 },
    gateway: { address },
    pipeline: {
      steps: [
        { type: 'replace-media-urls' },
        { type: 'render', params: { address } },
        ...['encode', 'prefill', 'decode'].map((type) => ({ type })),
      ],
    },
  });
  url = await until(
    'the address',
    () => /"address":"(http:[^"]+)","msg":"listening"/.exec(coordinator.output())?.[1],
  );
});

afterEach(async () => {
  coordinator.signal('SIGTERM');
  await coordinator.exited;
  upstream.close();
  upstream.closeAllConnections();
  await once(upstream, 'close');
});

async function question(): Promise<Answer> {
  const body = chatOf('What is it?', { images: [await drawImage(1)] });
  return ask(url, { path: '/v1/chat/completions', body });
}

describe('C40: a gateway that closes idle connections', () => {
  it('after the time between two requests fails none of them', async () => {
    for (let round = 0; round < rounds; round++) {
      expect((await question()).status).toBe(200);
      await sleep(idleMs - 5 + (round % 11));
    }
    expect(calls).toHaveLength(4 * rounds);
  });

  // Whether it ran cannot be told from here: nothing is sent twice.
  it.each(['render', 'encode', 'prefill', 'decode'] as const)(
    'once it has read a %s call: 502, and one run of it',
    async (phase) => {
      expect((await question()).status).toBe(200);
      calls = [];
      closes = (called) => called === phase;
      expect((await question()).status).toBe(502);
      expect(calls.filter((called) => called === phase)).toHaveLength(1);
    },
  );
});
