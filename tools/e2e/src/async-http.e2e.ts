import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findRedis } from '@llm-d/local-stack';
import { until } from '@llm-d/soak';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, ask, type Question } from './ask.ts';
import { type ApiError, type Completion, jsonOf } from './openai.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

let stack: TestStack;
beforeAll(async () => {
  const redis = findRedis({ PATH: process.env['PATH'] });
  if (!redis) throw new Error('tests need redis-server on the PATH: `npm test` installs it');
  stack = await startTestStack({ workers: onePodEach, queue: { redis } });
});
afterAll(() => stack.stop());
beforeEach(() => stack.configure('decode', { itlMs: 0 }));

let count = 0;
const newId = (): string => `async-${(count += 1)}`;
const prompt = { model: 'sim/model', prompt: 'Once upon a time', max_tokens: 6 };

/** Sends a request for the queue through the gateway's public listener, as clients do. */
function post(mode: string, requestId?: string, more: Partial<Question> = {}): Promise<Answer> {
  const { headers, ...rest } = more;
  return ask(stack.publicUrl, {
    ...{ path: '/v1/completions', body: prompt },
    ...(requestId !== undefined && { requestId }),
    headers: { 'x-llm-d-async-mode': mode, ...headers },
    ...rest,
  });
}
const byId = (method: 'GET' | 'DELETE', id: string): Promise<Answer> =>
  ask(stack.publicUrl, { method, path: `/v1/requests/${id}` });
/** The answer by id, once it is no longer pending. */
const result = (id: string): Promise<Answer> =>
  until(`the result of ${id}`, async () => {
    const answer = await byId('GET', id);
    return answer.status === 202 ? undefined : answer;
  });
const running = async (): Promise<number> =>
  (await stack.states()).reduce((sum, state) => sum + state.running, 0);
/** Decode calls so far, of whatever request. */
const decodeLegs = async (): Promise<number> =>
  (await stack.legs()).filter(({ profile }) => profile === 'decode').length;

describe('a queued request, over all processes', () => {
  it('is submitted, fetched as the workers answer it, again and again, and deleted', async () => {
    const [live, id] = [
      await ask(stack.publicUrl, { path: '/v1/completions', body: prompt }),
      newId(),
    ];
    const accepted = await post('enqueue', id);
    expect([accepted.status, accepted.body.toString()]).toEqual([
      202,
      `{"id":"${id}","status":"pending"}`,
    ]);
    const [first, second] = [await result(id), await byId('GET', id)];
    expect(first.status).toBe(200);
    expect(second.body).toEqual(first.body);
    const { choices } = jsonOf<Completion>(first);
    // What the pods tell of their caches differs; the length of the answer does not.
    expect(choices[0]?.finish_reason).toBe(jsonOf<Completion>(live).choices[0]?.finish_reason);
    expect(choices[0]?.text).toBeTruthy();
    expect((await byId('DELETE', id)).status).toBe(204);
    expect((await byId('GET', id)).status).toBe(404);
  });

  it('is waited for in one call', async () => {
    const id = newId();
    const { status, body, headers } = await post('wait', id);
    expect([status, headers['x-request-id']]).toEqual([200, id]);
    expect(jsonOf<Completion>({ body }).choices).toHaveLength(1);
  });

  it('runs once, however often and in whatever way it is sent', async () => {
    const [id, before] = [newId(), await decodeLegs()];
    const answers = await Promise.all([
      ...[post('enqueue', id), post('enqueue', id), post('wait', id), post('enqueue', id)],
    ]);
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 200, 202]);
    const key = { headers: { 'idempotency-key': id } };
    const [one, two] = await Promise.all([
      post('enqueue', undefined, key),
      post('enqueue', undefined, key),
    ]);
    expect(two.body).toEqual(one.body);
    const ids = jsonOf<{ id: string }>(one);
    expect((await result(ids.id)).status).toBe(200);
    expect(await decodeLegs()).toBe(before + 2);
    const other = await post('enqueue', undefined, { ...key, body: { ...prompt, max_tokens: 7 } });
    expect(other.status).toBe(422);
  });

  it('may be a batch, which has one answer', async () => {
    const body = { ...prompt, prompt: ['one', 'two'] };
    const answer = await post('wait', newId(), { body });
    expect(answer.status).toBe(200);
    expect(jsonOf<Completion>(answer).choices).toHaveLength(2);
  });

  it('may be a stream, which comes as it was sent', async () => {
    const body = { ...prompt, stream: true };
    const { headers, body: bytes } = await post('wait', newId(), { body });
    expect(headers['content-type']).toMatch(/^text\/event-stream/);
    expect(bytes.toString()).toMatch(/^data: \{[^]*\ndata: \[DONE\]\n\n$/);
  });

  it('is told what the worker says of a mistake', async () => {
    const answer = await post('wait', newId(), { body: { ...prompt, temperature: -3 } });
    expect(answer.status).toBe(400);
    expect(jsonOf<ApiError>(answer).error.message).toMatch(/temperature/);
  });

  it('is aborted down to the worker within a second when it is deleted', async () => {
    await stack.configure('decode', { itlMs: 500 });
    const id = newId();
    await post('enqueue', id, { body: { ...prompt, max_tokens: 100 } });
    await until('the worker runs it', async () => ((await running()) > 0 ? true : undefined));
    const startedAt = performance.now();
    expect((await byId('DELETE', id)).status).toBe(204);
    await until('the worker is free', async () => ((await running()) === 0 ? true : undefined));
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect((await byId('GET', id)).status).toBe(404);
  });

  it('is aborted when the only client that waits for it leaves, and runs anew when sent again', async () => {
    await stack.configure('decode', { itlMs: 500 });
    const [id, leave] = [newId(), new AbortController()];
    const long = { body: { ...prompt, max_tokens: 100 } };
    const held = post('wait', id, { ...long, signal: leave.signal }).catch(() => 'left');
    await until('the worker runs it', async () => ((await running()) > 0 ? true : undefined));
    leave.abort();
    expect(await held).toBe('left');
    await until('the worker is free', async () => ((await running()) === 0 ? true : undefined));
    expect((await result(id)).status).toBe(499);
    await stack.configure('decode', { itlMs: 0 });
    expect((await post('wait', id, long)).status).toBe(200);
  });
});

describe('a coordinator that dies while it holds an answer (F4)', () => {
  it('cancels nothing: the request is fetched, or waited for, at another one', async () => {
    await stack.configure('decode', { itlMs: 100 });
    const redisUrl = stack.queueRedisUrl;
    const params = { redis_url: redisUrl };
    const other = await stack.startCoordinator('dying', {
      firstStep: { type: 'async-broker', params },
    });
    const id = newId();
    const held = ask(other, {
      ...{ path: '/v1/completions', body: { ...prompt, max_tokens: 10 }, requestId: id },
      headers: { 'x-llm-d-async-mode': 'wait' },
    }).catch(() => 'broken');
    await until('the worker runs it', async () => ((await running()) > 0 ? true : undefined));
    const pid = stack.children.pid('dying');
    if (pid === undefined) throw new Error('no such coordinator');
    process.kill(pid, 'SIGKILL');
    expect(await held).toBe('broken');
    const joined = await post('wait', id, { body: { ...prompt, max_tokens: 10 } });
    expect(joined.status).toBe(200);
  });
});

describe('the snippets of docs/async-requests.md', () => {
  const page = readFileSync(
    fileURLToPath(new URL('../../../docs/async-requests.md', import.meta.url)),
    'utf8',
  );
  const snippet = (language: string): string => {
    const [, text] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(page) ?? [];
    if (text === undefined) throw new Error(`no snippet in ${language}`);
    return text;
  };
  const run = async (program: string, args: readonly string[]): Promise<string> => {
    // Node would colour the status.
    const env = { ...process.env, FORCE_COLOR: '0', LLM_URL: stack.publicUrl };
    return (await promisify(execFile)(program, args, { env, timeout: 30_000 })).stdout;
  };
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'snippets-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };

  it('run in Python', async () => {
    expect(await run('python3', [file('client.py', snippet('python'))])).toMatch(/^200 .*sea/);
  });

  it('run in Node', async () => {
    const script = file('client.mjs', snippet('js'));
    expect(await run(process.execPath, [script])).toMatch(/^200 .*sea/);
  });

  it('run with curl', async () => {
    const lines = (await run('sh', ['-c', snippet('sh')])).replaceAll('}{', '}\n{').split('\n');
    expect(lines[0]).toBe('{"id":"job-1","status":"pending"}');
    expect(lines[1]).toContain('"choices"');
    expect(lines[2]).toContain('UNKNOWN_REQUEST');
  });
});

describe('a frozen Redis', () => {
  it('is 503 within 2.1 s, live requests go on, and what was accepted is answered after it', async () => {
    const id = newId();
    await stack.configure('decode', { itlMs: 50 });
    await post('enqueue', id);
    const pid = stack.children.pid('redis-queue');
    if (pid === undefined) throw new Error('no Redis runs');
    process.kill(pid, 'SIGSTOP');
    const startedAt = performance.now();
    const [refused, live] = await Promise.all([
      post('enqueue', 'frozen').finally(() => {
        // Also when this fails: what is frozen cannot be stopped.
        process.kill(pid, 'SIGCONT');
      }),
      ask(stack.publicUrl, { path: '/v1/completions', body: prompt }),
    ]);
    // 2.1 s, and what a busy machine needs besides.
    expect(performance.now() - startedAt).toBeLessThan(2_600);
    expect([refused.status, live.status]).toEqual([503, 200]);
    expect(jsonOf<ApiError>(refused).error.code).toBe('ENQUEUE_FAILED');
    expect((await result(id)).status).toBe(200);
    const again = await until('Redis takes it', async () => {
      const answer = await post('wait', 'frozen');
      return answer.status === 503 ? undefined : answer;
    });
    expect(again.status).toBe(200);
  });
});
