import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { pathOf } from './deploy-files.ts';

const smoke = pathOf('deploy/charts/stack/files/smoke.mjs');
let server: Server | undefined;

afterEach(() => {
  server?.close();
});

/** Answers of a release by `METHOD path`, in turn; the last one stays. Mode is that of the header. */
type Answers = Readonly<Record<string, readonly { status: number; text?: string }[]>>;

const good: Answers = {
  'GET /readyz': [{ status: 200 }],
  'POST /v1/completions': [{ status: 200 }],
  'POST /v1/completions enqueue': [{ status: 202, text: '{"id":"one"}' }],
  'POST /v1/chat/completions': [{ status: 200 }],
  'GET /v1/requests/one': [{ status: 202 }, { status: 200 }],
};

/** Runs the test pod's program against a server; resolves with its exit code, and what it asked for and with which body. */
async function run(answers: Answers) {
  const asked: string[] = [];
  const bodies: string[] = [];
  const given = new Map<string, number>();
  server = createServer((request, response) => {
    const mode = request.headers['x-llm-d-async-mode'];
    const what = [request.method, request.url, ...(mode ? [mode] : [])].join(' ');
    asked.push(what);
    const turn = given.get(what) ?? 0;
    given.set(what, turn + 1);
    const list = answers[what] ?? [{ status: 404 }];
    const { status, text } = list[Math.min(turn, list.length - 1)] ?? { status: 500 };
    void (async () => {
      let body = '';
      for await (const piece of request) body += String(piece);
      bodies.push(body);
      response.writeHead(status).end(text);
    })();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { COORDINATOR: url, BROKER: url, MODEL: 'sim/model', IMAGE: 'yes', QUEUE: 'yes' };
  const child = execFile(process.execPath, [smoke], { env, timeout: 20_000 });
  const [code] = (await once(child, 'exit')) as [number];
  return { code, asked, bodies };
}

describe('helm test', () => {
  it('asks whether apps are ready, for a text, about an image, and through the queue', async () => {
    const { code, asked, bodies } = await run(good);
    expect(asked).toEqual([
      ...['GET /readyz', 'GET /readyz', 'POST /v1/completions', 'POST /v1/chat/completions'],
      ...['POST /v1/completions enqueue', 'GET /v1/requests/one', 'GET /v1/requests/one'],
    ]);
    expect(bodies[3]).toContain('data:image/png;base64,');
    expect(code).toBe(0);
  });

  it.each([
    ['an app is not ready', { 'GET /readyz': [{ status: 503 }] }],
    ['the text fails', { 'POST /v1/completions': [{ status: 502 }] }],
    ['the image fails', { 'POST /v1/chat/completions': [{ status: 502 }] }],
    ['nothing is queued', { 'POST /v1/completions enqueue': [{ status: 200, text: '{}' }] }],
    ['the result is a failure', { 'GET /v1/requests/one': [{ status: 504 }] }],
  ] as [string, Answers][])('fails when %s', async (_name, bad) => {
    expect((await run({ ...good, ...bad })).code).toBe(1);
  });
});
