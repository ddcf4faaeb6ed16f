import { requestContext } from '@llm-d/pipeline/testing';
import { type MediaSource } from '@llm-d/pipeline';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { inlineMedia, Rig } from './testing.ts';

/** Cases of cases.md that are about what the legs of a whole pipeline carry; others stand beside their step. */

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
  rig.gateway.play({ json: { ec_transfer_params: {}, choices: [] } });
});
afterEach(() => rig.close());

const kinds = ['replace-media-urls', 'render', 'encode', 'prefill', 'decode'];

/** Runs a chat body through all steps and gives what each call carried; the call to render is `render`. */
async function legsOf(
  body: string,
  options: { media?: MediaSource; tokensIn?: boolean; rendered?: object } = {},
): Promise<{ role: string; text: string }[]> {
  const { media = inlineMedia, tokensIn = false, rendered = { token_ids: [1, 2] } } = options;
  rig.renderService.play({ json: rendered });
  const steps = kinds.map((type) => ({
    type,
    ...(tokensIn && (type === 'encode' || type === 'prefill')
      ? { params: { use_openai_format: false } }
      : {}),
  }));
  await rig.pipeline(steps, { media }).run(requestContext({ body }));
  return [...rig.renderService.calls, ...rig.gateway.calls].map((call) => ({
    role: call.headers['epp-profile']?.[0] ?? 'render',
    text: call.body.toString(),
  }));
}

const image = '{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}';
const features = (...hashes: string[]): object => ({
  token_ids: [1, 2, 3],
  features: {
    mm_hashes: { image: hashes },
    mm_placeholders: { image: hashes.map((_, i) => ({ offset: i, length: 1 })) },
    kwargs_data: { image: hashes.map(() => null) },
  },
});

describe('messages without content (C21)', () => {
  it.each([
    '{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}',
    '{"role":"assistant","refusal":null}',
    '{"role":"assistant","content":""}',
    '{"role":"user","content":[]}',
  ])('reach render and every leg unchanged: %s', async (message) => {
    const messages = `[{"role":"user","content":"w?"}, ${message} ,{"role":"tool","tool_call_id":"c1","content":"42"}]`;
    const legs = await legsOf(`{"model":"m","messages":${messages}}`);
    expect(legs.map(({ role }) => role)).toEqual(['render', 'prefill', 'decode']);
    for (const { text } of legs) expect(text).toContain(`"messages":${messages}`);
  });

  it('leave the verdict on an empty list to the worker', async () => {
    const legs = await legsOf('{"model":"m","messages":[]}');
    for (const { text } of legs) expect(text).toContain('"messages":[]');
  });
});

describe('parts that are not images (C22)', () => {
  const others = [
    '{"type":"text","text":"a"}',
    '{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}',
    '{"type":"video_url","video_url":{"url":"https://h/v.mp4"}}',
    '{"type":"brand_new","x":1}',
  ];
  const body = (content: string): string =>
    `{"model":"m","messages":[{"role":"user","content":${content}}]}`;

  it('pass untouched and in order', async () => {
    const content = `[${others.join(',')}]`;
    const legs = await legsOf(body(content), {
      rendered: { token_ids: [1], features: { mm_hashes: { audio: ['a'], video: ['v'] } } },
    });
    for (const { text } of legs) expect(text).toContain(`"content":${content}`);
  });

  it('pass beside images, which alone are encoded', async () => {
    const content = `[${[...others.slice(0, 2), image, ...others.slice(2)].join(',')}]`;
    const legs = await legsOf(body(content), { rendered: features('h') });
    expect(legs.map(({ role }) => role)).toEqual(['render', 'encode', 'prefill', 'decode']);
    expect(JSON.parse(legs[1]?.text ?? '')).toMatchObject({
      messages: [{ content: [JSON.parse(image)] }],
    });
    expect(legs[2]?.text).toContain(`"content":${content}`);
    expect(legs[3]?.text).toContain(others[1]);
    expect(legs[3]?.text).toContain(others.slice(2).join(','));
  });

  it.each([
    { modality: 'audio', param: 'messages[0].content[1].type' },
    { modality: 'video', param: 'messages[0].content[2].type' },
  ])('are refused where legs cannot carry them: $modality', async ({ modality, param }) => {
    const run = legsOf(body(`[${others.join(',')}]`), {
      tokensIn: true,
      rendered: {
        token_ids: [1],
        features: { mm_hashes: { image: [], [modality]: ['a'] }, kwargs_data: null },
      },
    });
    await expect(run).rejects.toMatchObject({
      ...{ status: 400, code: 'media_modality_not_served', param, step: 'render' },
      message: `${param}: ${modality} is not served here: legs carry token ids (use_openai_format: false)`,
    });
    expect(rig.gateway.calls).toEqual([]);
  });
});

describe('what stands beside the URL of an image (C24)', () => {
  const asked: string[] = [];
  /** Knows one picture. */
  const media: MediaSource = {
    ...inlineMedia,
    fetchMany(references) {
      asked.push(...references.map(({ url }) => url));
      return Promise.resolve(
        references.map(() => ({
          contentType: 'image/png',
          byteLength: 3,
          base64: () => Buffer.from('QUJD'),
        })),
      );
    },
  };
  const part = (url: string, uuid: string): string =>
    `{"type":"image_url","image_url":{"url":"${url}","detail":"low","x":1},"uuid":"${uuid}","cache_control":{"type":"ephemeral"}}`;

  it('stays; equal images are encoded once and found by hash', async () => {
    const url = 'https://h/a.png';
    const body = (...parts: string[]): string =>
      `{"model":"m","messages":[{"role":"user","content":[${parts.join(',')}]}]}`;
    const legs = await legsOf(body(part(url, 'client-u'), part(url, 'client-v')), {
      media,
      rendered: features('h1', 'h1'),
    });
    expect(asked).toEqual([url, url]);
    const inlined = 'data:image/png;base64,QUJD';
    const own = body(part(inlined, 'client-u'), part(inlined, 'client-v'));
    const [render, encode, prefill, decode, ...more] = legs;
    expect(more).toEqual([]);
    expect(render?.text).toBe(own);
    expect(encode?.text).toContain(`"content":[${part(inlined, 'client-u')}]`);
    expect(prefill?.text).toContain(own.slice(0, -1));
    // The rule for a client's uuid: decode looks embeddings up by content hash, so the hash takes its place there.
    const stamped = body(part(inlined, 'h1'), part(inlined, 'h1'));
    expect(decode?.text).toContain(stamped.slice(0, -1));
  });
});

describe('the one-token cap of synthetic legs (C34)', () => {
  it.each([
    { name: 'max_tokens', fields: { max_tokens: 512 } },
    { name: 'max_completion_tokens', fields: { max_completion_tokens: 512 } },
    { name: 'both', fields: { max_tokens: 512, max_completion_tokens: 512 } },
    { name: 'neither', fields: {} },
    { name: 'min_tokens', fields: { min_tokens: 64, max_tokens: 512 } },
    { name: 'the cap of another API', fields: { max_output_tokens: 512 } },
    {
      name: 'fields that lengthen or shape an answer',
      fields: {
        ignore_eos: true,
        stop: ['x'],
        response_format: { type: 'json_object' },
        tools: [{ type: 'function', function: { name: 'f' } }],
      },
    },
  ])('is whole whatever the client sent: $name', async ({ fields }) => {
    const own = JSON.stringify(fields).slice(1, -1);
    const legs = await legsOf(
      `{"model":"m","messages":[{"role":"user","content":[${image}]}]${own && `,${own}`}}`,
      { rendered: features('h') },
    );
    expect(legs.map(({ role }) => role)).toEqual(['render', 'encode', 'prefill', 'decode']);
    for (const { text } of legs.slice(1, 3)) {
      const sent = JSON.parse(text) as Record<string, unknown>;
      expect(sent).toMatchObject({ max_tokens: 1, max_completion_tokens: 1, stream: false });
      expect(sent).not.toHaveProperty('min_tokens');
      expect(sent).not.toHaveProperty('max_output_tokens');
    }
    expect(legs[3]?.text).toContain(own);
    const decode = JSON.parse(legs[3]?.text ?? '') as Record<string, unknown>;
    const caps = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'min_tokens'];
    for (const cap of caps) expect(decode[cap]).toBe((fields as Record<string, unknown>)[cap]);
  });
});
