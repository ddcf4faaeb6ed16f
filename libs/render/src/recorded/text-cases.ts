import assert from 'node:assert/strict';
import { join } from 'node:path';

import { type ProfileOptions } from '../profile.ts';
import {
  readDifferences,
  readLines,
  TESTDATA,
  type Answer,
  type RecordedCase,
  type RecordedError,
  type RecordedServer,
} from './recorded-case.ts';

interface TextCase {
  readonly id: string;
  readonly route: string;
  readonly body: string;
  readonly status: number;
  readonly prompt_text?: string | null;
  readonly answer?: unknown;
  readonly error?: RecordedError | null;
}

interface AnswerObject {
  readonly token_ids: unknown;
  readonly sampling_params: unknown;
  readonly [name: string]: unknown;
}

/** The flags that `render-fixtures/README.md` lists for the second server of Qwen3. */
const FLAGS: ProfileOptions = {
  servedModelNames: ['my-alias', 'other-alias'],
  enableAutoToolChoice: true,
  toolParser: 'hermes',
  excludeToolsWhenToolChoiceNone: true,
  trustRequestChatTemplate: true,
  defaultChatTemplateKwargs: new Map([['enable_thinking', false]]),
  maxModelLen: 2048,
};

/** By `server/id`, or by `id` alone for all servers. */
const differences = readDifferences('text/differences.json');

/** The six servers whose text answers were recorded. */
export const textServers: readonly RecordedServer[] = [
  textServer('qwen3-text'),
  textServer('qwen3-flags', 'qwen3-text', FLAGS),
  textServer('llama31-text'),
  textServer('gemma3-text'),
  textServer('deepseekv3-text'),
  textServer('llama2-text'),
];

function textServer(name: string, model = name, options: ProfileOptions = {}): RecordedServer {
  const recorded = readLines(`text/${name}.jsonl`) as TextCase[];
  return {
    name,
    options: {
      directory: join(TESTDATA, 'models', model),
      enableAutoToolChoice: false,
      ...options,
    },
    cases: recorded.map((entry) => toCase(name, entry)),
  };
}

function toCase(server: string, recorded: TextCase): RecordedCase {
  const { id, route: path, body } = recorded;
  return {
    id,
    path,
    body: () => Buffer.from(body),
    difference: differences[`${server}/${id}`] ?? differences[id],
    check: (answer) => {
      check(recorded, answer);
    },
  };
}

function check(recorded: TextCase, { status, body, promptText }: Answer): void {
  assert.equal(status, recorded.status, body.slice(0, 1000));
  const answer: unknown = JSON.parse(body);
  if (status !== 200) {
    const { type, param } = (answer as RecordedError).error;
    assert.deepEqual(
      { type, param },
      { type: recorded.error?.error.type, param: recorded.error?.error.param },
    );
    return;
  }
  if (promptText !== undefined && recorded.prompt_text !== undefined) {
    assert.equal(promptText, recorded.prompt_text);
  }
  const shaped = Array.isArray(answer) ? answer.map(shape) : shape(answer);
  assert.deepEqual(shaped, recorded.answer);
}

/** An answer object as the fixtures record it. */
function shape(answer: unknown): unknown {
  const { request_id, token_ids, sampling_params, features, ...rest } = answer as AnswerObject;
  assert.equal(features, null);
  const form = String(request_id).replace(/[0-9a-f]{16,}/, 'HEX');
  return { token_ids, sampling_params, rest, request_id_form: form };
}
