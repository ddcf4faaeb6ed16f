import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Agent } from 'undici';
import { loadOptions } from './load-options.ts';
import { askChat, openLoop, quantile } from './open-loop.ts';
import { promptMix } from './prompt-mix.ts';

const agent = new Agent();
const stream = { 'content-type': 'text/event-stream' };
/** Answers by the request's body. */
const server: Server = createServer((request, response) => {
  request.setEncoding('utf8').once('data', (body: string) => {
    if (body === 'busy') response.writeHead(429).end('{}');
    else if (body === 'json') response.writeHead(200).end('{}');
    else if (body === 'reset') request.socket.destroy();
    else {
      const last: Record<string, string> = {
        good: 'data: [DONE]\n\n',
        error: 'data: {"error":{}}\n\ndata: [DONE]\n\n',
      };
      response.writeHead(200, stream).write('data: {}\n\n');
      setImmediate(() => response.end(last[body] ?? 'data: {}\n\n'));
    }
  });
});
let origin: string;

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(async () => {
  await agent.destroy();
  server.close();
});

describe('askChat', () => {
  it.each([
    { body: 'good', result: '200' },
    { body: 'short', result: 'cut' },
    { body: 'error', result: 'error event' },
    { body: 'busy', result: '429' },
    { body: 'json', result: '200' },
    { body: 'reset', result: 'UND_ERR_SOCKET' },
    { body: 'good', result: 'left', leavesAfter: 1 },
  ])('calls $body $result', async ({ body, result, leavesAfter }) => {
    const dueAt = performance.now();
    const question = { origin, body: Buffer.from(body), dueAt, leavesAfter };
    const { firstMs, wholeMs, ...rest } = await askChat(agent, question);
    expect(rest.result).toBe(result);
    expect(wholeMs).toBeGreaterThanOrEqual(firstMs ?? 0);
    expect(firstMs === undefined).toBe(body === 'reset');
  });
});

it('an open loop sends what is due, whatever becomes of the rest', async () => {
  const startedAt = performance.now();
  const due: number[] = [];
  // The first one ends only when all have been sent.
  const { promise, resolve } = Promise.withResolvers<void>();
  const ends = await openLoop({ rate: 500, seconds: 0.1 }, async (index, dueAt) => {
    due.push(dueAt - startedAt);
    if (index === 49) resolve();
    await promise;
    return index;
  });
  expect(ends).toEqual(Array.from({ length: 50 }, (_, index) => index));
  const last = due.at(-1) ?? 0;
  expect(last - (due[0] ?? 0)).toBeCloseTo(98, 0);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(97);
});

it('a quantile is one of the figures', () => {
  expect([0, 0.5, 0.99, 1].map((share) => quantile([3, 1, 2], share))).toEqual([1, 2, 3, 3]);
  expect(quantile([], 0.5)).toBeNaN();
});

it('a mix is the same with the same seed, has its shares, and asks few prefixes often', async () => {
  const options = { model: 'm', images: 0.25, cancels: 0.5, maxTokens: 9, seed: 7 };
  const take = async () => {
    const next = await promptMix(options);
    return Array.from({ length: 400 }, () => {
      const { body, leavesAfter } = next();
      return { text: body.toString(), leavesAfter };
    });
  };
  const requests = await take();
  expect(await take()).toEqual(requests);
  const texts = requests.map(({ text }) => text);
  const share = (isIn: (text: string, index: number) => boolean): number =>
    texts.filter(isIn).length / texts.length;
  expect(share((text) => text.includes('image_url'))).toBeCloseTo(0.25, 0.5);
  expect(share((_, index) => requests[index]?.leavesAfter !== undefined)).toBeCloseTo(0.5, 0.5);
  expect(share((text) => text.includes('Application 0.'))).toBeGreaterThan(0.15);
  expect(new Set(texts).size).toBe(400);
});

it.each([['--images=2'], ['--rate=fast'], ['--seconds=-1']])('refuses %s by its name', (flag) => {
  expect(() => loadOptions([flag])).toThrow(flag.replace(/=.*/, ''));
});
