import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer } from '@llm-d/testing';
import { pictureChat, TestCoordinator } from './testing.ts';

// Situations that people reported in public: cases.md, by number.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

const streamed = { ...pictureChat, stream: true };

interface OpenAiError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}
const errorOf = (text: string): OpenAiError => (JSON.parse(text) as { error: OpenAiError }).error;

describe('C20: every error is an OpenAI error', () => {
  const html: Answer = {
    status: 502,
    headers: { 'content-type': 'text/html' },
    text: '<html>SECRET</html>',
  };
  const refused: Answer = { status: 422, json: { error: { message: 'the prompt was SECRET' } } };
  interface Row {
    readonly name: string;
    readonly status: number;
    readonly code: string;
    readonly phases?: Parameters<TestCoordinator['play']>[0];
    readonly body?: unknown;
    readonly path?: string;
    readonly method?: string;
  }
  const rows: Row[] = [
    { name: '404', status: 404, code: 'UNKNOWN_PATH', path: '/v1/none' },
    { name: '405', status: 405, code: 'METHOD_NOT_ALLOWED', method: 'PUT' },
    { name: '413', status: 413, code: 'REQUEST_TOO_LARGE', body: 'x'.repeat(1_048_577) },
    { name: '400', status: 400, code: 'BAD_REQUEST', body: '[]' },
    { name: 'render 422', status: 422, code: 'UPSTREAM_ERROR', phases: { render: refused } },
    { name: 'encode 422', status: 422, code: 'UPSTREAM_ERROR', phases: { encode: refused } },
    { name: 'prefill 422', status: 422, code: 'UPSTREAM_ERROR', phases: { prefill: refused } },
    {
      name: 'prefill 500',
      status: 502,
      code: 'UPSTREAM_ERROR',
      phases: { prefill: { status: 500, text: 'SECRET' } },
    },
    {
      name: 'prefill too slow',
      status: 504,
      code: 'UPSTREAM_TIMEOUT',
      phases: { prefill: { beforeHeaders: 'hang' } },
    },
    {
      name: 'decode too slow',
      status: 504,
      code: 'UPSTREAM_TIMEOUT',
      phases: { decode: { beforeHeaders: 'hang' } },
    },
    { name: 'HTML at prefill', status: 502, code: 'UPSTREAM_ERROR', phases: { prefill: html } },
    { name: 'HTML at decode', status: 502, code: 'UPSTREAM_ERROR', phases: { decode: html } },
    {
      name: 'packed JSON that cannot be unpacked',
      status: 502,
      code: 'UPSTREAM_ANSWER_UNDECODABLE',
      phases: { prefill: { headers: { 'content-encoding': 'gzip' }, text: 'SECRET' } },
    },
  ];

  it.each(rows.flatMap((row) => [false, true].map((stream) => ({ ...row, stream }))))(
    '$name (stream: $stream)',
    async ({ status, code, phases = {}, body, stream, ...asked }) => {
      await coordinator.start({
        // Only where it is to be met: the other rows may take as long as the machine needs.
        gateway: code === 'UPSTREAM_TIMEOUT' ? { timeout: '500ms' } : {},
        pipeline: { passthrough: false },
      });
      coordinator.play(phases);
      const answer = await coordinator.ask(body ?? { ...pictureChat, stream }, {
        ...asked,
        headers: { 'x-request-id': 'c20' },
      });
      expect(answer.status).toBe(status);
      expect(answer.headers['content-type']).toMatch(/^application\/json/);
      expect(answer.headers['x-request-id']).toBe('c20');
      expect(Object.keys(JSON.parse(answer.text) as object)).toEqual(['error']);
      const error = errorOf(answer.text);
      expect(error).toMatchObject({
        code,
        message: expect.stringContaining('c20'),
        type: expect.any(String),
        param: null,
      });
      expect(error.message).not.toContain('{');
      expect(answer.text).not.toContain('SECRET');
    },
  );

  it('and one that a worker wrote is not wrapped a second time', async () => {
    await coordinator.start();
    const json = { error: { message: 'worker', type: 't', param: null, code: 400 } };
    coordinator.play({ decode: { status: 400, json } });
    expect(await coordinator.ask(streamed)).toMatchObject({
      status: 400,
      text: JSON.stringify(json),
    });
  });
});
