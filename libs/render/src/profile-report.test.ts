import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import { reportProfile } from './profile-report.ts';
import { Renderer } from './renderer.ts';

const MODELS = join(import.meta.dirname, 'testdata/models');
const SUPPORTED = { isSupported: true };
const refused = (reason: RegExp): object => ({
  isSupported: false,
  reason: expect.stringMatching(reason),
});

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'profile-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

function copy(model: string): void {
  cpSync(join(MODELS, model), directory, { recursive: true });
}

const write = (name: string, text: string): void => {
  writeFileSync(join(directory, name), text);
};

describe('reportProfile', () => {
  it('knows a vision model', async () => {
    copy('qwen2_5-vl');
    expect(await reportProfile({ directory })).toMatchObject({
      text: SUPPORTED,
      chat: SUPPORTED,
      tools: SUPPORTED,
      images: SUPPORTED,
      details: { maxModelLen: 128_000, contentFormat: 'openai' },
    });
  });

  it('knows a text model', async () => {
    copy('llama2-text');
    expect(await reportProfile({ directory })).toMatchObject({
      text: SUPPORTED,
      chat: SUPPORTED,
      tools: SUPPORTED,
      images: refused(/not a multimodal model/),
    });
  });

  it('names the construct of a template that is not supported', async () => {
    copy('qwen2_5-vl');
    write('chat_template.jinja', '{% include "other" %}');
    expect(await reportProfile({ directory })).toMatchObject({
      text: refused(/include/),
      details: undefined,
    });
  });

  it('names a model family whose images it cannot process', async () => {
    copy('qwen2_5-vl');
    write(
      'config.json',
      JSON.stringify({ model_type: 'llava', vision_config: {}, max_position_embeddings: 10_000 }),
    );
    expect(await reportProfile({ directory })).toMatchObject({
      chat: SUPPORTED,
      images: refused(/images of model type llava/),
    });
  });

  it('refuses a Llama tokenizer that vLLM rebuilds from other data than SentencePiece', async () => {
    copy('deepseekv3-text');
    write('config.json', JSON.stringify({ model_type: 'llama', max_position_embeddings: 100 }));
    expect(await reportProfile({ directory })).toMatchObject({ text: refused(/proxy mode/) });
  });

  it('says which file is missing', async () => {
    expect(await reportProfile({ directory })).toMatchObject({
      text: refused(/tokenizer\.json is missing/),
    });
  });
});

describe('templates of a profile', () => {
  it('uses additional_chat_templates/tool_use.jinja for requests with tools only', async () => {
    copy('qwen2_5-vl');
    write('chat_template.jinja', 'plain');
    mkdirSync(join(directory, 'additional_chat_templates'));
    write('additional_chat_templates/tool_use.jinja', 'with tools');
    const renderer = await Renderer.load({ directory });
    const messages = [{ role: 'user', content: 'hi' }];
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const textOf = async (body: object): Promise<string | undefined> =>
      (await renderer.chat(Buffer.from(JSON.stringify(body)))).promptText;
    expect(await textOf({ messages })).toBe('plain');
    expect(await textOf({ messages, tools })).toBe('with tools');
  });
});
