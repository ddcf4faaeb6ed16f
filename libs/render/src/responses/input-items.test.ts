import { describe, expect, it } from '@jest/globals';

import { RenderError } from '../errors.ts';
import { type JsonValue } from '../json/json-value.ts';
import { parseJson } from '../json/parse-json.ts';
import { isContinued, readInput } from './input-items.ts';

const value = (source: unknown): JsonValue => parseJson(Buffer.from(JSON.stringify(source)));

function plain(item: JsonValue): unknown {
  if (item instanceof Map) {
    return Object.fromEntries([...item].map(([key, member]) => [key, plain(member)]));
  }
  return Array.isArray(item) ? item.map(plain) : item;
}

const read = (input: unknown): unknown => plain(readInput(value(input)));
const user = (content: unknown) => ({ role: 'user', content });
const call = (id: string) => ({ type: 'function_call', call_id: id, name: 'f', arguments: '{}' });
const chatCall = (id: string) => ({
  id,
  type: 'function',
  function: { name: 'f', arguments: '{}' },
});
const reasoning = (text: string) => ({
  type: 'reasoning',
  content: [{ type: 'reasoning_text', text }],
});

describe('the input of a responses request', () => {
  it('is one message when it is a text', () => {
    expect(read('hi')).toEqual([user('hi')]);
  });

  it('has its parts in their chat form', () => {
    const parts = [
      { type: 'input_text', text: 'a' },
      { type: 'input_image', image_url: 'data:x', detail: 'low', uuid: 'u' },
    ];
    const answer = [
      { type: 'output_text', text: 'b', annotations: [] },
      { type: 'refusal', refusal: 'c' },
    ];
    expect(read([user(parts), { type: 'message', role: 'assistant', content: answer }])).toEqual([
      user([
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: { url: 'data:x' }, uuid: 'u' },
      ]),
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'b' },
          { type: 'refusal', refusal: 'c' },
        ],
      },
    ]);
  });

  it('has results of functions as tool messages, texts and parts', () => {
    const output = [{ type: 'input_image', image_url: 'data:x' }];
    expect(
      read([
        { type: 'function_call_output', call_id: '1', output: 'sunny' },
        { type: 'function_call_output', call_id: '2', output },
      ]),
    ).toEqual([
      { role: 'tool', content: 'sunny', tool_call_id: '1' },
      {
        role: 'tool',
        content: [{ type: 'image_url', image_url: { url: 'data:x' }, uuid: null }],
        tool_call_id: '2',
      },
    ]);
  });

  it('makes one message of what the assistant thought, said and called in one turn', () => {
    const said = { role: 'assistant', content: 'let me see' };
    expect(read([reasoning('hm'), said, call('1'), call('2')])).toEqual([
      {
        role: 'assistant',
        reasoning: 'hm',
        content: 'let me see',
        tool_calls: [chatCall('1'), chatCall('2')],
      },
    ]);
  });

  it('gives a thought to what follows it, not to what came before', () => {
    const said = (content: string) => ({ role: 'assistant', content });
    expect(read([said('a'), reasoning('hm'), said('b'), said('c')])).toEqual([
      said('a'),
      { role: 'assistant', reasoning: 'hm', content: 'b' },
      said('c'),
    ]);
  });

  it('takes the summary of a thought that has no text', () => {
    const summary = [{ type: 'summary_text', text: 's' }];
    expect(
      read([
        { type: 'reasoning', summary },
        { type: 'reasoning', summary: [] },
      ]),
    ).toEqual([
      { role: 'assistant', reasoning: 's' },
      { role: 'assistant', reasoning: '' },
    ]);
  });

  it.each([
    ['a number', 5],
    ['an item that is a text', ['x']],
    ['an unknown role', [{ role: 'tool', content: 'x' }]],
    ['no role', [{ content: 'x' }]],
    ['no content', [{ role: 'user' }]],
    ['a chat part', [user([{ type: 'text', text: 'x' }])]],
    ['a part that is a text', [user(['x'])]],
    ['an image by file', [user([{ type: 'input_image', file_id: 'f' }])]],
    ['a file', [user([{ type: 'input_file', file_id: 'f' }])]],
    ['a call without arguments', [{ type: 'function_call', call_id: '1', name: 'f' }]],
    ['a result without an id', [{ type: 'function_call_output', output: 'x' }]],
  ])('is refused with %s', (_name, input) => {
    expect(() => read(input)).toThrow(
      expect.objectContaining({ status: 400, type: 'Bad Request', param: 'body.input' }),
    );
  });

  it.each([
    [{ type: 'item_reference', id: 'x' }, 'Unsupported input item type: item_reference'],
    [{ type: 'reasoning', encrypted_content: 'x' }, 'Encrypted content is not supported.'],
  ])('is refused with what only its server knows: %j', (item, message) => {
    expect(() => read([item])).toThrow(RenderError);
    expect(() => read([item])).toThrow(message);
  });
});

describe('isContinued', () => {
  const last = { role: 'assistant', content: 'Pa' };
  it.each([
    { input: 'hi', expected: false },
    { input: [], expected: false },
    { input: [last], expected: false },
    { input: [{ ...last, status: 'completed' }], expected: false },
    { input: [{ ...last, status: 'in_progress' }], expected: true },
    { input: [{ ...last, type: 'message', status: 'incomplete' }], expected: true },
    { input: [{ ...call('1'), status: 'in_progress' }], expected: false },
    { input: [{ ...last, status: 'in_progress' }, user('x')], expected: false },
  ])('is $expected for $input', ({ input, expected }) => {
    expect(isContinued(value(input))).toBe(expected);
  });
});
