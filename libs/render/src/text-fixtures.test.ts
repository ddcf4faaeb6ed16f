import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeAll, describe, expect, it } from '@jest/globals';

import { writeAnswer } from './answer/write-answer.ts';
import { RenderError } from './errors.ts';
import { type ProfileOptions } from './profile.ts';
import { Renderer } from './renderer.ts';

const TESTDATA = join(import.meta.dirname, 'testdata');

interface TextCase {
  readonly id: string;
  readonly route: string;
  readonly body: string;
  readonly status: number;
  readonly prompt_text?: string | null;
  readonly answer?: ExpectedAnswer | ExpectedAnswer[] | null;
  readonly error?: {
    readonly error: { readonly type: string; readonly param: string | null };
  } | null;
}

interface ExpectedAnswer {
  readonly token_ids: number[];
  readonly sampling_params: unknown;
  readonly rest: Readonly<Record<string, unknown>>;
}

interface Server {
  readonly name: string;
  readonly directory: string;
  readonly options?: ProfileOptions;
}

/** The flags that render-fixtures/README.md lists for the second server of Qwen3. */
const servers: Server[] = [
  { name: 'qwen3-text', directory: 'qwen3-text' },
  {
    name: 'qwen3-flags',
    directory: 'qwen3-text',
    options: {
      servedModelNames: ['my-alias', 'other-alias'],
      enableAutoToolChoice: true,
      toolParser: 'hermes',
      excludeToolsWhenToolChoiceNone: true,
      trustRequestChatTemplate: true,
      defaultChatTemplateKwargs: new Map([['enable_thinking', false]]),
      maxModelLen: 2048,
    },
  },
  { name: 'llama31-text', directory: 'llama31-text' },
  { name: 'gemma3-text', directory: 'gemma3-text' },
  { name: 'deepseekv3-text', directory: 'deepseekv3-text' },
  { name: 'llama2-text', directory: 'llama2-text' },
];

/** Cases that differ on purpose, by `server/id`, or by `id` alone for all servers, with the reason. */
const differences = JSON.parse(
  readFileSync(join(TESTDATA, 'text/differences.json'), 'utf8'),
) as Record<string, string>;

function readCases(server: string): TextCase[] {
  return readFileSync(join(TESTDATA, 'text', `${server}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as TextCase);
}

/** The parts of an answer that the fixtures record, in their shape. */
function shape(text: string): ExpectedAnswer {
  const {
    request_id: id,
    token_ids,
    sampling_params,
    features,
    ...rest
  } = JSON.parse(text) as Record<string, unknown>;
  expect(id).toBe('id');
  expect(features).toBeNull();
  return { token_ids: token_ids as number[], sampling_params, rest };
}

async function render(renderer: Renderer, { route, body: text }: TextCase) {
  const body = Buffer.from(text);
  if (route === '/v1/completions/render') return renderer.completions(body);
  const isChat = route === '/v1/chat/completions/render';
  return [await (isChat ? renderer.chat(body) : renderer.responses(body))];
}

async function check(renderer: Renderer, recorded: TextCase): Promise<void> {
  if (recorded.status !== 200) {
    const error: unknown = await render(renderer, recorded).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(RenderError);
    const { status, type, param } = error as RenderError;
    expect({ status, type, param }).toEqual({
      status: recorded.status,
      type: recorded.error?.error.type,
      param: recorded.error?.error.param,
    });
    return;
  }
  const prompts = await render(renderer, recorded);
  if (recorded.route !== '/v1/completions/render') {
    expect(prompts[0]?.promptText).toBe(recorded.prompt_text);
  }
  const answers = prompts.map((prompt) =>
    shape(Buffer.concat(writeAnswer(prompt, { requestId: 'id' })).toString()),
  );
  const expected = [recorded.answer].flat().map((answer) => {
    expect(Array.isArray(answer?.token_ids)).toBe(true);
    return {
      token_ids: answer?.token_ids,
      sampling_params: answer?.sampling_params,
      rest: answer?.rest,
    };
  });
  expect(answers).toEqual(expected);
}

describe.each(servers)('requests recorded from vLLM 0.33 as $name', (server) => {
  const { name, directory, options } = server;
  const cases = readCases(name);
  const reason = ({ id }: TextCase): string | undefined =>
    differences[`${name}/${id}`] ?? differences[id];
  let renderer: Renderer;

  beforeAll(async () => {
    renderer = await Renderer.load({
      directory: join(TESTDATA, 'models', directory),
      enableAutoToolChoice: false,
      ...options,
    });
  });

  it('are all there', () => {
    expect(cases).toHaveLength(232);
  });

  it.each(cases.filter((entry) => reason(entry) === undefined))(
    '$id answers as recorded',
    (entry) => check(renderer, entry),
  );

  it.each(cases.filter((entry) => reason(entry) !== undefined))(
    '$id is listed as different, and is',
    async (entry) => {
      await expect(check(renderer, entry)).rejects.toThrow();
    },
  );
});
