import { describe, expect, it } from '@jest/globals';
import { isObject, type JsonObject } from './exact-json.ts';
import { askPrefill, forDecode, pngUrl, post, workerFarm } from './testing.ts';

const start = workerFarm();
const path = '/v1/responses';
const input = 'Say something about rivers, at some length if you can, and name three of them.';

/** Name and data of every event. */
const events = (text: string): { name: string; data: JsonObject }[] =>
  text
    .trimEnd()
    .split('\n\n')
    .map((event) => {
      const [, name = '', data = ''] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      return { name, data: JSON.parse(data) as JsonObject };
    });

const objectOf = (value: unknown): JsonObject => {
  if (!isObject(value)) throw new Error(`no object: ${JSON.stringify(value)}`);
  return value;
};

describe('the Responses API', () => {
  it('answers one object, under an id of its own', async () => {
    const { url } = await start({ mode: 'count' });
    const asked = { input, max_output_tokens: 3, max_tokens: 9, n: 2, stream_options: {} };
    const answer = await post(url + path, asked, { 'x-request-id': 'r-1' });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{16}$/),
      object: 'response',
      model: 'sim/model',
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [
        {
          type: 'message',
          role: 'assistant',
          content: [{ type: 'output_text', text: 't0 t1 t2', annotations: [] }],
        },
      ],
      usage: { output_tokens: 3 },
      kv_transfer_params: null,
    });
    const whole = await post(url + path, { input });
    expect(whole.json).toMatchObject({ status: 'completed', incomplete_details: null });
  });

  it('streams named, numbered events and no [DONE]', async () => {
    const { url } = await start({ mode: 'count' });
    const answer = await post(url + path, { input, max_output_tokens: 2, stream: true });
    const all = events(answer.text);
    expect(all.map(({ name }) => name)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    all.forEach(({ name, data }, at) => {
      expect(data).toMatchObject({ type: name, sequence_number: at });
    });
    expect(all[5]?.data).toMatchObject({ delta: ' t1' });
    expect(all.at(-1)?.data).toMatchObject({
      response: { status: 'incomplete', output: [{ content: [{ text: 't0 t1' }] }] },
    });
  });

  it('goes through encode, prefill and decode pods, images of function results included', async () => {
    const [encode, prefill, decode] = [
      await start({ role: 'encode', podName: 'encode-1' }),
      await start({ role: 'prefill', podName: 'prefill-1' }),
      await start({ role: 'decode', podName: 'decode-1' }),
    ];
    const image = (seed: number) => ({ type: 'input_image', image_url: pngUrl(32, 32, seed) });
    const body = (first: object, second: object): JsonObject => ({
      input: [
        { role: 'user', content: [{ type: 'input_text', text: input }, first] },
        { type: 'function_call', call_id: 'c', name: 'shoot', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [second] },
      ],
    });
    const capped = { max_output_tokens: 1, stream: false, store: false };
    const ec: JsonObject = {};
    for (const seed of [1, 2]) {
      const own = { input: [{ role: 'user', content: [image(seed)] }], ...capped };
      const answer = await post(encode.url + path, own, { 'epp-profile': 'encode' });
      Object.assign(ec, objectOf(answer.json['ec_transfer_params']));
    }
    const [h1, h2] = Object.keys(ec);
    const prefilled = await post(prefill.url + path, {
      ...body(image(1), image(2)),
      ...capped,
      kv_transfer_params: askPrefill,
      ec_transfer_params: ec,
    });
    expect(prefilled.json).toMatchObject({ status: 'incomplete', usage: { output_tokens: 1 } });
    const params = forDecode(objectOf(prefilled.json['kv_transfer_params']));
    const asDecode = (first: string | undefined, second: string | undefined): JsonObject => ({
      ...body({ ...image(1), uuid: first }, { ...image(2), uuid: second }),
      kv_transfer_params: params,
    });
    const answer = await post(decode.url + path, asDecode(h1, h2));
    expect(answer.status).toBe(200);
    expect(decode.requests().at(-1)).toMatchObject({
      images: [{ hash: h1 }, { hash: h2 }],
      kv: { source: 'external', pod: 'prefill-1' },
    });
    const swapped = await post(decode.url + path, asDecode(h2, h1));
    expect(swapped.status).toBe(400);
  });

  it.each([
    { body: {}, says: 'input' },
    { body: { input, max_output_tokens: 0 }, says: 'max_tokens must be at least 1' },
    { body: { input, previous_response_id: 'r' }, says: 'previous_response_id' },
  ])('refuses $body', async ({ body, says }) => {
    const { url } = await start();
    const answer = await post(url + path, body);
    expect(answer.status).toBe(400);
    expect(answer.json['error']).toMatchObject({ message: expect.stringContaining(says) });
  });
});
