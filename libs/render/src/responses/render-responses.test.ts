import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { Renderer } from '../renderer.ts';

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

const bytes = (request: unknown): Buffer => Buffer.from(JSON.stringify(request));
const responses = (request: unknown) => renderer.responses(bytes(request));
const chat = (request: unknown) => renderer.chat(bytes(request));
const sampling = async (fields: object) =>
  Object.fromEntries((await responses({ input: 'hi', ...fields })).samplingParams);

describe('a responses request', () => {
  it('is rendered as the chat that it stands for, images of function results included', async () => {
    const request = {
      instructions: 'Be brief.',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Take a picture.' },
            { type: 'input_image', image_url: IMAGE },
          ],
        },
        { type: 'function_call', call_id: 'c', name: 'shoot', arguments: '{"iso":100}' },
        {
          type: 'function_call_output',
          call_id: 'c',
          output: [{ type: 'input_image', image_url: IMAGE }],
        },
      ],
    };
    const image = { type: 'image_url', image_url: { url: IMAGE } };
    const { tokenIds, promptText, images } = await chat({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Take a picture.' }, image] },
        {
          role: 'assistant',
          tool_calls: [
            { id: 'c', type: 'function', function: { name: 'shoot', arguments: '{"iso":100}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c', content: [image] },
      ],
    });
    expect(images).toHaveLength(2);
    expect(await responses(request)).toMatchObject({ tokenIds, promptText, images });
    const withTensors = await renderer.responses(bytes(request), { tensors: true });
    expect(withTensors.kwargsData).toHaveLength(2);
  });

  it('has the functions among its tools in the prompt, whatever may be chosen', async () => {
    const fn = { name: 'f', description: 'd', parameters: { type: 'object' } };
    const { promptText } = await chat({
      messages: [{ role: 'user', content: 'hi' }],
      tools: [{ type: 'function', function: fn }],
    });
    for (const choice of ['auto', 'none', 'required', { type: 'function', name: 'f' }]) {
      const tools = [{ type: 'web_search' }, { type: 'function', ...fn }];
      const own = await responses({ input: 'hi', tools, tool_choice: choice });
      expect(own.promptText).toBe(promptText);
    }
    const plain = await responses({ input: 'hi' });
    expect(plain.promptText).not.toBe(promptText);
    expect((await responses({ input: 'hi', tools: [] })).promptText).toBe(plain.promptText);
  });

  it('goes on with an answer that is not complete', async () => {
    const begun = { role: 'assistant', content: 'The capital is', status: 'incomplete' };
    const { promptText } = await responses({ input: [{ role: 'user', content: 'x' }, begun] });
    expect(promptText).toMatch(/The capital is$/);
  });

  it('limits its answer by max_output_tokens alone', async () => {
    const limits = { max_output_tokens: 7, max_tokens: 9, n: 3, min_tokens: 2, stream: true };
    expect(await sampling(limits)).toMatchObject({ max_tokens: 7n, output_kind: 1n });
    expect(await sampling(limits)).not.toHaveProperty('min_tokens');
    expect(await sampling(limits)).not.toHaveProperty('n');
  });

  it('has the transfer params in extra_args too', async () => {
    expect(await sampling({})).toMatchObject({ extra_args: new Map() });
    const params = { do_remote_decode: true };
    const rendered = await responses({ input: 'hi', kv_transfer_params: params });
    const kv = new Map([['do_remote_decode', true]]);
    expect(rendered.kvTransferParams).toEqual(kv);
    expect(rendered.samplingParams.get('extra_args')).toEqual(
      new Map([['kv_transfer_params', kv]]),
    );
  });

  it.each([
    {
      fields: { include: ['message.output_text.logprobs'], top_logprobs: 3 },
      params: { logprobs: 3n },
    },
    { fields: { include: ['message.output_text.logprobs'] }, params: { logprobs: 0n } },
    {
      fields: { text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object' } } } },
      params: { structured_outputs: expect.any(Map) },
    },
  ])('takes $fields', async ({ fields, params }) => {
    expect(await sampling(fields)).toMatchObject(params);
  });

  it('has no log probabilities and no schema unless it asks for them', async () => {
    const params = await sampling({ top_logprobs: 3, text: { format: { type: 'text' } } });
    expect(params).not.toHaveProperty('logprobs');
    expect(params).not.toHaveProperty('structured_outputs');
  });

  it('keeps the end of a prompt that is too long, where it may be truncated', async () => {
    const small = await Renderer.load({ maxModelLen: 32 });
    const ask = (fields: object) =>
      small.responses(bytes({ input: 'word '.repeat(40), max_output_tokens: 8, ...fields }));
    await expect(ask({})).rejects.toMatchObject({ status: 400 });
    const { tokenIds, promptText = '' } = await ask({ truncation: 'auto' });
    const whole = await small.tokenize(promptText, { addSpecialTokens: false });
    expect([...tokenIds]).toEqual([...whole.slice(-24)]);
  });

  it.each([
    { fields: { truncation: 'middle' }, status: 400, param: 'body.truncation' },
    { fields: { prompt: { id: 'p' } }, status: 400, param: 'prompt' },
    { fields: { previous_input_messages: [] }, status: 501, param: 'previous_input_messages' },
    { fields: { instructions: 5 }, status: 400, param: 'body.instructions' },
    { fields: { tools: ['x'] }, status: 400, param: 'body.tools.0' },
    { fields: { reasoning: { effort: 'huge' } }, status: 400, param: 'body.reasoning_effort' },
    { fields: { model: 'nope' }, status: 404, param: 'model' },
  ])('is refused with $fields', async ({ fields, status, param }) => {
    await expect(responses({ input: 'hi', ...fields })).rejects.toMatchObject({ status, param });
  });
});
