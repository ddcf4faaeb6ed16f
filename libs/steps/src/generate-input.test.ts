import { type MediaEntry } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { readGenerateInput } from './generate-input.ts';

const unlimited = { maxTokens: 0, maxPlaceholderTokens: 0 };

function read(body: string, limits = unlimited) {
  const ctx = requestContext({ api: 'generate', body });
  readGenerateInput(ctx, limits);
  return ctx;
}

function fault(body: string, limits = unlimited): unknown {
  try {
    read(body, limits);
  } catch (error) {
    return error;
  }
  return undefined;
}

const withFeatures = (features: string): string => `{"token_ids":[1,2,3,4],"features":${features}}`;
const placed = (list: string): string =>
  withFeatures(`{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[${list}]}}`);

describe('a tokens-in request', () => {
  it('gives ids and, without features, no media', () => {
    const ctx = read('{"token_ids":[1,2345,6789]}');
    expect(ctx.tokenIds?.raw.toString()).toBe('[1,2345,6789]');
    expect(ctx.media).toEqual([]);
  });

  it('gives an entry for each image in order', () => {
    const ctx = read(
      withFeatures(
        '{"mm_hashes":{"image":["a","b"]},"mm_placeholders":{"image":[{"offset":0,"length":1},{"offset":1,"length":3}]},"kwargs_data":{"image":["eA==",null]}}',
      ),
    );
    const plain = (entry: MediaEntry) => ({ ...entry, kwargsData: entry.kwargsData?.toString() });
    expect(ctx.media.map(plain)).toEqual([
      { modality: 'image', hash: 'a', placeholder: { offset: 0, length: 1 }, kwargsData: '"eA=="' },
      {
        modality: 'image',
        hash: 'b',
        placeholder: { offset: 1, length: 3 },
        kwargsData: undefined,
      },
    ]);
  });

  it('leaves its body as it is', () => {
    const body = ' { "token_ids" : [1.0,2] }';
    expect(read(body).body.toString()).toBe(body);
  });

  it.each(['null', '"1"', '[]', '{}', '1'])('needs token ids, not %s', (ids) => {
    expect(fault(`{"token_ids":${ids}}`)).toMatchObject({ status: 400, param: 'token_ids' });
  });

  it('needs token ids at all', () => {
    expect(fault('{}')).toMatchObject({ status: 400, param: 'token_ids' });
  });

  it.each(['-1', '1.5', '1e19', '"abc"', 'true', 'null', '[1]'])(
    'refuses %s as a token id',
    (id) => {
      expect(fault(`{"token_ids":[7,${id}]}`)).toMatchObject({
        status: 400,
        param: 'token_ids[1]',
      });
    },
  );

  it.each(['null', '{}', '{"extra_args":null}', '{"extra_args":{}}', '{"extra_args":[]}'])(
    'may have sampling_params %s',
    (params) => {
      expect(fault(`{"token_ids":[1],"sampling_params":${params}}`)).toBeUndefined();
    },
  );

  it.each(['[]', '"x"', '1', 'true'])('refuses sampling_params %s', (params) => {
    expect(fault(`{"token_ids":[1],"sampling_params":${params}}`)).toMatchObject({
      status: 400,
      param: 'sampling_params',
    });
  });

  it.each([
    'null',
    '{}',
    '{"mm_hashes":null}',
    '{"mm_hashes":{}}',
    '{"mm_hashes":{"image":null}}',
    '{"mm_hashes":{"image":[]}}',
    '{"mm_hashes":{"audio":["a"]}}',
  ])('has no media with features %s', (features) => {
    expect(read(withFeatures(features)).media).toEqual([]);
  });

  it.each([
    ['"x"', 'features'],
    ['[]', 'features'],
    ['5', 'features'],
    ['{"mm_hashes":"x"}', 'features.mm_hashes'],
    ['{"mm_hashes":{"image":"x"}}', 'features.mm_hashes.image'],
    ['{"mm_hashes":{"image":["h"]}}', 'features.mm_placeholders.image'],
    ['{"mm_hashes":{"image":["h"]},"mm_placeholders":"x"}', 'features.mm_placeholders'],
    [
      '{"mm_hashes":{"image":["h","i"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}',
      'features.mm_placeholders.image',
    ],
    [
      '{"mm_hashes":{"image":[5]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}',
      'features.mm_hashes.image[0]',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":["x"]}}',
      'features.mm_placeholders.image[0]',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":-1,"length":1}]}}',
      'features.mm_placeholders.image[0]',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":1,"length":-3}]}}',
      'features.mm_placeholders.image[0]',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]},"kwargs_data":"x"}',
      'features.kwargs_data',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]},"kwargs_data":{"image":[]}}',
      'features.kwargs_data.image',
    ],
    [
      '{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]},"kwargs_data":{"image":[5]}}',
      'features.kwargs_data.image[0]',
    ],
  ])('refuses features %s', (features, param) => {
    expect(fault(withFeatures(features))).toMatchObject({ status: 400, param });
  });

  it.each([
    [0, 4],
    [1, 3],
    [3, 0],
  ])('takes a placeholder at %i of %i tokens', (offset, length) => {
    expect(read(placed(`{"offset":${offset},"length":${length}}`)).media).toHaveLength(1);
  });

  it.each([
    [4, 0],
    [5, 1],
    [2, 3],
    [0, 9007199254740991],
    [0, 9007199254740992],
  ])('refuses a placeholder at %i of %i tokens', (offset, length) => {
    expect(fault(placed(`{"offset":${offset},"length":${length}}`))).toMatchObject({
      status: 400,
      param: 'features.mm_placeholders.image[0]',
    });
  });

  it('names the placeholder that lies outside', () => {
    const features =
      '{"mm_hashes":{"image":["a","b"]},"mm_placeholders":{"image":[{"offset":0,"length":4},{"offset":10,"length":1}]}}';
    expect(fault(withFeatures(features))).toMatchObject({
      param: 'features.mm_placeholders.image[1]',
    });
  });

  it('keeps to the token limit', () => {
    expect(fault('{"token_ids":[1,2]}', { ...unlimited, maxTokens: 2 })).toBeUndefined();
    expect(fault('{"token_ids":[1,2,3]}', { ...unlimited, maxTokens: 2 })).toMatchObject({
      status: 400,
      code: 'PROMPT_TOO_LONG',
      message: 'the prompt has 3 tokens, the limit is 2',
    });
  });

  it('keeps to the placeholder limit', () => {
    const body = withFeatures(
      '{"mm_hashes":{"image":["a","b"]},"mm_placeholders":{"image":[{"offset":0,"length":4},{"offset":1,"length":3}]}}',
    );
    expect(fault(body, { ...unlimited, maxPlaceholderTokens: 7 })).toBeUndefined();
    expect(fault(body, { ...unlimited, maxPlaceholderTokens: 5 })).toMatchObject({
      status: 400,
      message: 'the media of the prompt take 7 tokens, the limit is 5',
    });
  });
});
