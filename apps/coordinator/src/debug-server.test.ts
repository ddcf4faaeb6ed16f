import { once } from 'node:events';
import { type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import supertest from 'supertest';
import { HandoffCounts } from '@llm-d/pipeline';
import { startDebugServer } from './debug-server.ts';
import { RecentRequests } from './recent-requests.ts';

let recent: RecentRequests;
let handoffs: HandoffCounts;
let server: Server;

beforeEach(async () => {
  recent = new RecentRequests();
  handoffs = new HandoffCounts();
  server = await startDebugServer({ recent, handoffs }, { host: '127.0.0.1', port: 0 });
});

afterEach(async () => {
  server.close();
  await once(server, 'close');
});

it('GET /debug/handoffs answers the counts by kind and connector', async () => {
  handoffs.count({ kind: 'kv', connector: 'kv-nixl', event: 'offered' });
  handoffs.count({ kind: 'kv', connector: 'kv-nixl', event: 'used' });
  expect((await supertest(server).get('/debug/handoffs')).body).toEqual({
    kv: { 'kv-nixl': { offered: 1, used: 1, released: 0, expired: 0 } },
    ec: {},
  });
});

describe('GET /debug/requests/{id}', () => {
  it('answers the request of that id', async () => {
    recent.add('a-1', { model: 'm' });
    const response = await supertest(server).get('/debug/requests/a-1');
    expect(response.status).toBe(200);
    expect(response.body).toEqual({ model: 'm' });
  });

  it('answers the last of equal ids', async () => {
    recent.add('a', { run: 1 });
    recent.add('a', { run: 2 });
    expect((await supertest(server).get('/debug/requests/a')).body).toEqual({ run: 2 });
  });

  it('remembers 256 requests', () => {
    for (let index = 0; index <= 256; index++) recent.add(`id-${index}`, { index });
    expect(recent.get('id-0')).toBeUndefined();
    expect(recent.get('id-1')).toEqual({ index: 1 });
  });

  it.each(['/debug/requests/none', '/debug/requests/', '/', '/debug/requests/a_b'])(
    '%s is 404',
    async (path) => {
      expect((await supertest(server).get(path)).status).toBe(404);
    },
  );

  it('takes no other method', async () => {
    recent.add('a', {});
    expect((await supertest(server).delete('/debug/requests/a')).status).toBe(404);
  });

  it('rejects when the port is taken', async () => {
    const { port } = server.address() as AddressInfo;
    await expect(
      startDebugServer({ recent, handoffs }, { host: '127.0.0.1', port }),
    ).rejects.toThrow('EADDRINUSE');
  });
});
