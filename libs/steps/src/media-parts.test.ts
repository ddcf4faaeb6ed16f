import { type Api } from '@llm-d/gateway';
import { requestContext } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { mediaParts } from './media-parts.ts';

const parts = (body: string, api: Api = 'chat') =>
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

describe('mediaParts of responses', () => {
  const inputImage = (url: string): string => `{"type":"input_image","image_url":"${url}"}`;
  const responses = (input: string) => parts(`{"input":${input}}`, 'responses');

  it('finds images of messages and of function results in order', () => {
    const text = '{"type":"input_text","text":"x"}';
    expect(
      responses(
        `[{"content":[${text},${inputImage('a')}]},{"type":"function_call_output","output":[${inputImage('b')},${text}]},{"content":[${inputImage('c')}]}]`,
      ),
    ).toEqual([
      ['input[0].content[1]', 'a'],
      ['input[1].output[0]', 'b'],
      ['input[2].content[0]', 'c'],
    ]);
  });

  it.each([
    '"text"',
    'null',
    '[1,"x",null,[]]',
    '[{"content":"x"},{"output":"x"},{"content":null},{}]',
    `[{"content":[${image('a')}]}]`,
    `[{"summary":[${inputImage('a')}]}]`,
    `[${inputImage('a')}]`,
  ])('finds none in %s', (input) => {
    expect(responses(input)).toEqual([]);
  });

  it('leaves a list alone that belongs to the other API', () => {
    const body = `{"input":[{"content":[${inputImage('a')}]}],"messages":[{"content":[${image('b')}],"output":[${image('c')}]}]}`;
    expect(parts(body, 'responses')).toEqual([['input[0].content[0]', 'a']]);
    expect(parts(body, 'chat')).toEqual([['messages[0].content[0]', 'b']]);
  });

  it.each([
    ',"file_id":"f"',
    ',"image_url":null,"file_id":"f"',
    ',"image_url":{"url":"a"}',
    ',"image_url":5',
    '',
  ])('refuses an image without a URL: %s', (rest) => {
    expect(() => responses(`[{"output":[{"type":"input_image"${rest}}]}]`)).toThrow(
      expect.objectContaining({
        status: 400,
        param: 'input[0].output[0].image_url',
        message: 'input[0].output[0]: image_url must be a text, an image by file_id is not served',
      }),
    );
  });
});

describe('mediaParts of other modalities', () => {
  const body = `{"messages":[{"content":[
    {"type":"video_url","video_url":{"url":"v"}},
    ${image('i')},
    {"audio_url":{"url":"a"},"type":"audio_url"},
    {"type":"input_audio","input_audio":{"format":"wav","data":"AAAA"}},
    {"type":"brand_new","video_url":{"url":"x"}}]}]}`;
  const all = ['image', 'video', 'audio'] as const;
  const found = (text: string, ...modalities: ('image' | 'video' | 'audio')[]) =>
    mediaParts(requestContext({ api: 'chat', body: text }), modalities).map(
      ({ modality, path, url, format }) => [modality, path, url.text(), format],
    );

  it('are found where they are asked for, in the order of the document', () => {
    expect(found(body, ...all)).toEqual([
      ['video', 'messages[0].content[0]', 'v', undefined],
      ['image', 'messages[0].content[1]', 'i', undefined],
      ['audio', 'messages[0].content[2]', 'a', undefined],
      ['audio', 'messages[0].content[3]', 'AAAA', 'wav'],
    ]);
    expect(found(body, 'video')).toEqual([['video', 'messages[0].content[0]', 'v', undefined]]);
  });

  it.each([
    ['{"type":"video_url","video_url":"v"}', 'video_url.url'],
    ['{"type":"video_url","image_url":{"url":"v"}}', 'video_url.url'],
    ['{"type":"audio_url","audio_url":{"url":5}}', 'audio_url.url'],
    ['{"type":"input_audio","input_audio":{"format":"wav"}}', 'input_audio.data'],
  ])('are refused as %s, unless they are not asked for', (part, member) => {
    const text = `{"messages":[{"content":[${part}]}]}`;
    const param = `messages[0].content[0].${member}`;
    expect(() => found(text, ...all)).toThrow(expect.objectContaining({ status: 400, param }));
    expect(found(text, 'image')).toEqual([]);
  });
});
