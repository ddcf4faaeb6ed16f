import { requestContext } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { mediaParts } from './media-parts.ts';

const parts = (body: string, api: 'chat' | 'completions' | 'generate' = 'chat') =>
  mediaParts(requestContext({ api, body })).map(({ path, url }) => [path, url.text()]);
const image = (url: string): string => `{"type":"image_url","image_url":{"url":"${url}"}}`;

describe('mediaParts', () => {
  it('finds images in the order of the document', () => {
    const body = `{"messages":[{"content":[${image('a')},{"type":"text","text":"x"},${image('b')}]},{"content":"text"},{"content":[${image('c')}]}]}`;
    expect(parts(body)).toEqual([
      ['messages[0].content[0]', 'a'],
      ['messages[0].content[2]', 'b'],
      ['messages[2].content[0]', 'c'],
    ]);
  });

  it.each([
    '{}',
    '{"messages":null}',
    '{"messages":"x"}',
    '{"messages":[1,"x",null,[]]}',
    '{"messages":[{"content":"x"},{"content":null},{}]}',
    '{"messages":[{"content":[1,"x",null,{"type":"text"},{"type":5},{}]}]}',
    `{"input":[{"content":[${image('a')}]}]}`,
  ])('finds none in %s', (body) => {
    expect(parts(body)).toEqual([]);
  });

  it.each(['completions', 'generate'] as const)('does not walk stray messages of %s', (api) => {
    expect(parts(`{"messages":[{"content":[${image('a')}]}]}`, api)).toEqual([]);
  });

  it.each(['"a"', 'null', '{}', '{"url":null}', '{"url":5}', '{"url":["a"]}'])(
    'refuses an image whose image_url is %s, and says where',
    (imageUrl) => {
      const body = `{"messages":[{"content":[${image('a')},{"type":"image_url","image_url":${imageUrl}}]}]}`;
      expect(() => parts(body)).toThrow(
        expect.objectContaining({
          status: 400,
          param: 'messages[0].content[1].image_url.url',
        }),
      );
    },
  );

  it('refuses an image without image_url', () => {
    expect(() => parts('{"messages":[{"content":[{"type":"image_url"}]}]}')).toThrow(
      'messages[0].content[0]: image_url.url must be a text',
    );
  });
});
