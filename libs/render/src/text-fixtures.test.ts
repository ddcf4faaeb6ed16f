import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeAll, describe, expect, it } from '@jest/globals';

import { writeAnswer } from './answer/write-answer.ts';
import { RenderError } from './errors.ts';
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

const cases = readFileSync(join(TESTDATA, 'text/qwen3-text.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as TextCase);

/** Cases that differ on purpose, with the reason. */
const allowed = JSON.parse(readFileSync(join(TESTDATA, 'text/differences.json'), 'utf8')) as Record<
  string,
  string
>;

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

describe('requests recorded from vLLM 0.33 with the Qwen3 text model', () => {
  let renderer: Renderer;

  beforeAll(async () => {
    renderer = await Renderer.load({
      directory: join(TESTDATA, 'models/qwen3-text'),
      enableAutoToolChoice: false,
    });
  });

  it('covers all recorded cases', () => {
    expect(cases).toHaveLength(232);
  });

  it.each(cases.filter(({ id }) => !(id in allowed)))(
    '$id answers as recorded',
    async (recorded) => {
      const body = Buffer.from(recorded.body);
      const isCompletions = recorded.route === '/v1/completions/render';
      const run = async () => {
        if (isCompletions) return renderer.completions(body);
        const isChat = recorded.route === '/v1/chat/completions/render';
        return [await (isChat ? renderer.chat(body) : renderer.responses(body))];
      };
      if (recorded.status !== 200) {
        const error: unknown = await run().then(
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
      const prompts = await run();
      if (!isCompletions) expect(prompts[0]?.promptText).toBe(recorded.prompt_text);
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
    },
  );
});
