import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'undici';

import { type RunningShim, startShim } from './testing.ts';

const TESTDATA = join(import.meta.dirname, 'testdata');

interface HttpCase {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly status: number;
  readonly content_type: string | null;
  readonly answer_headers: readonly string[];
  readonly text: string;
  readonly allow?: string;
}

const cases = readFileSync(join(TESTDATA, 'http.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as HttpCase);
const differences = JSON.parse(
  readFileSync(join(TESTDATA, 'http-differences.json'), 'utf8'),
) as Record<string, string>;

let shim: RunningShim;

beforeAll(async () => {
  shim = await startShim([
    {
      mode: 'embedded',
      profile: { directory: join(TESTDATA, 'qwen3-text'), enableAutoToolChoice: false },
    },
  ]);
});
afterAll(async () => {
  await shim.stop();
});

async function check(recorded: HttpCase): Promise<void> {
  const { method, path, headers, body, status, content_type: contentType } = recorded;
  const answer = await request(`${shim.url}${path}`, {
    method,
    headers,
    ...(body !== null && { body: Buffer.from(body) }),
  });
  const text = await answer.body.text();
  expect(answer.statusCode).toBe(status);
  if (contentType !== null) {
    expect(String(answer.headers['content-type']).split(';', 1)[0]).toBe(contentType);
  }
  if (recorded.allow !== undefined) expect(answer.headers['allow']).toBe(recorded.allow);
  if (recorded.answer_headers.includes('location')) {
    expect(new URL(String(answer.headers['location']), shim.url).pathname).toBe(
      path.replace(/\/$/, ''),
    );
  }
  if (recorded.text === '') expect(text).toBe('');
  else expect(comparable(text)).toEqual(comparable(recorded.text));
}

/** Without what differs from time to time; of schema errors, whose text is Python's, all but the text. */
function comparable(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => {
    if (key === 'created') return 0;
    if (typeof value !== 'string') return value;
    if (key === 'id' && value.startsWith('modelperm-')) return 'modelperm';
    if (key === 'request_id') return value.replace(/[0-9a-f]{16,}/, 'HEX');
    return key === 'message' && value.includes('validation error') ? 'schema' : value;
  }) as unknown;
}

describe('requests recorded over HTTP from vLLM 0.33', () => {
  it('are all there', () => {
    expect(cases).toHaveLength(35);
  });

  it.each(cases.filter(({ id }) => !(id in differences)))('$id answers as recorded', check);

  it.each(cases.filter(({ id }) => id in differences))('$id differs on purpose', async (entry) => {
    await expect(check(entry)).rejects.toThrow();
  });
});
