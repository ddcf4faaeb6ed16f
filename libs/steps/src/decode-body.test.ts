import { type Api } from '@llm-d/gateway';
import { type JsonInput, rootOf } from '@llm-d/json-document';
import { TokenIds } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { decodeBody } from './decode-body.ts';
import { mediaParts } from './media-parts.ts';
import { Rig, seedWire } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

function write(
  api: Api,
  body: string,
  options: { kv?: JsonInput; ids?: string; hashes?: (string | undefined)[]; isSeed?: boolean } = {},
): string {
  const { kv, ids, hashes = [], isSeed = false } = options;
  const ctx = requestContext({ api, body });
  if (ids !== undefined) ctx.tokenIds = TokenIds.read(rootOf(Buffer.from(ids)));
  ctx.media = mediaParts(ctx).map(({ part }, i) => {
    const hash = hashes[i];
    return { modality: 'image', part, ...(hash === undefined ? {} : { hash }) };
  });
  return decodeBody(ctx, rig.dependencies(isSeed ? { wire: seedWire } : {}), kv).toString();
}

const image = (more = ''): string => `{"type":"image_url","image_url":{"url":"data:,"}${more}}`;
const images = (...parts: string[]): string => `{"messages":[{"content":[${parts.join(',')}]}]}`;

describe('the body of a decode leg', () => {
  it.each<[Api]>([['chat'], ['completions'], ['generate'], ['responses']])(
    'of %s is the client’s, when there is no hand-off',
    (api) => {
      const body =
        '{ "z" : 1.0, "max_tokens":200,"min_tokens":50 ,"stream":true,"seed":9007199254740993}\n';
      expect(write(api, body)).toBe(body);
    },
  );

  it.each<[Api]>([['chat'], ['completions'], ['generate'], ['responses']])(
    'of %s has the hand-off at the top level',
    (api) => {
      expect(
        write(api, '{"sampling_params":{"max_tokens":50}}', { kv: { do_remote_prefill: true } }),
      ).toBe(
        '{"sampling_params":{"max_tokens":50},"kv_transfer_params":{"do_remote_prefill":true}}',
      );
    },
  );

  it('has the hash of each image on its part, whatever the client had put there', () => {
    expect(
      write('chat', images(image(), '{"type":"text"}', image(',"uuid":"mine"')), {
        hashes: ['h0', 'h1'],
      }),
    ).toBe(images(image(',"uuid":"h0"'), '{"type":"text"}', image(',"uuid":"h1"')));
  });

  it('has the hash of each image of a response, those of function results too', () => {
    const input = (...more: string[]): string => {
      const [a, b] = more.map((text) => `{"type":"input_image","image_url":"data:,"${text}}`);
      return `{"input":[{"content":[${a}]},{"type":"function_call_output","output":[${b}]}],"store":true}`;
    };
    expect(write('responses', input('', ''), { hashes: ['h0', 'h1'], isSeed: true })).toBe(
      input(',"uuid":"h0"', ',"uuid":"h1"'),
    );
  });

  it.each([undefined, ''])('has no uuid for the hash %j', (hash) => {
    const body = images(image(), image(',"uuid":"mine"'));
    expect(write('chat', body, { hashes: [hash, hash] })).toBe(body);
  });

  it('has the rendered ids as the prompt of completions', () => {
    expect(write('completions', '{"prompt":"x","n":1}', { ids: '[1, 2]' })).toBe(
      '{"prompt":[1, 2],"n":1}',
    );
    expect(write('completions', '{"prompt":"x"}')).toBe('{"prompt":"x"}');
    expect(write('completions', '{"prompt":[]}', { ids: '[]' })).toBe('{"prompt":[]}');
  });

  it('has no ids on chat, and the given ones on generate', () => {
    expect(write('chat', '{"messages":[]}', { ids: '[1]' })).toBe('{"messages":[]}');
    expect(write('generate', '{"token_ids":[1]}', { ids: '[1]' })).toBe('{"token_ids":[1]}');
  });
});

describe('the body of a decode leg of the seed era', () => {
  const kv = { do_remote_prefill: true };
  const inside = '{"kv_transfer_params":{"do_remote_prefill":true}}';
  it.each([
    ['{}', `{"sampling_params":{"extra_args":${inside}}}`],
    ['{"sampling_params":null}', `{"sampling_params":{"extra_args":${inside}}}`],
    [
      '{"sampling_params":{"max_tokens":50}}',
      `{"sampling_params":{"max_tokens":50,"extra_args":${inside}}}`,
    ],
    [
      '{"sampling_params":{"extra_args":null,"n":1}}',
      `{"sampling_params":{"extra_args":${inside},"n":1}}`,
    ],
    [
      '{"sampling_params":{"extra_args":{"a":1.0}}}',
      '{"sampling_params":{"extra_args":{"a":1.0,"kv_transfer_params":{"do_remote_prefill":true}}}}',
    ],
  ])('has the hand-off of %s below extra_args', (body, expected) => {
    expect(write('generate', body, { kv, isSeed: true })).toBe(expected);
  });

  it('creates no extra_args without a hand-off', () => {
    expect(write('generate', '{"sampling_params":{}}', { isSeed: true })).toBe(
      '{"sampling_params":{}}',
    );
  });

  it('has the tokens object on chat, once something was rendered', () => {
    expect(write('chat', '{"messages":[]}', { kv, ids: '[1, 2]', isSeed: true })).toBe(
      '{"messages":[],"kv_transfer_params":{"do_remote_prefill":true},"tokens":{"token_ids":[1, 2]}}',
    );
    expect(write('chat', '{"messages":[]}', { isSeed: true })).toBe('{"messages":[]}');
  });
});
