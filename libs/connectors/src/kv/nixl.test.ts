import { jsonRaw } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { answer } from '../testing.ts';
import { nixl } from './nixl.ts';

const whole = {
  remote_block_ids: [[4, 5, 6]],
  remote_engine_id: 'engine-7',
  remote_request_id: 'chatcmpl-1',
  remote_host: '10.0.2.1',
  remote_port: 5600,
};

function decodeParams(answered: object): string | readonly string[] {
  const decided = nixl.decodeParams(answer(JSON.stringify(answered)));
  return decided.params === undefined ? decided.missing : jsonRaw(decided.params).toString();
}

describe('kv-nixl', () => {
  it('lets a hand-off be used once and in time', () => {
    expect(nixl.isLeased).toBe(true);
  });

  it('asks prefill with the four remote fields as null, not left out', () => {
    expect(jsonRaw(nixl.prefillParams() ?? null).toString()).toBe(
      '{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,' +
        '"remote_block_ids":null,"remote_host":null,"remote_port":null}',
    );
  });

  it('passes everything on that prefill answered and turns the flags round', () => {
    const text = JSON.stringify({
      do_remote_prefill: false,
      ...whole,
      block_id: 'b',
      peer_host: 'h',
      tp_size: 1,
    });
    const { params } = nixl.decodeParams(answer(text));
    expect(JSON.parse(jsonRaw(params ?? null).toString())).toEqual({
      ...whole,
      block_id: 'b',
      peer_host: 'h',
      tp_size: 1,
      do_remote_decode: false,
      do_remote_prefill: true,
    });
  });

  it('keeps digits, order and unknown fields of the answer', () => {
    const text = `{"z":1.0, "n":9007199254740993,${JSON.stringify(whole).slice(1)}`;
    const { params } = nixl.decodeParams(answer(text));
    expect(jsonRaw(params ?? null).toString()).toBe(
      `${text.slice(0, -1)},"do_remote_decode":false,"do_remote_prefill":true}`,
    );
  });

  it.each(Object.keys(whole))('gives decode nothing when %s is missing', (field) => {
    expect(decodeParams({ ...whole, [field]: undefined })).toEqual([field]);
  });

  it.each([
    { field: 'remote_block_ids', value: null },
    { field: 'remote_block_ids', value: [] },
    { field: 'remote_engine_id', value: '' },
    { field: 'remote_engine_id', value: null },
    { field: 'remote_host', value: {} },
    { field: 'remote_port', value: false },
  ])('gives decode nothing when $field is $value', ({ field, value }) => {
    expect(decodeParams({ ...whole, [field]: value })).toEqual([field]);
  });

  // A real decode pod ends on do_remote_prefill without blocks (engine-verified.md 1 and 4).
  it.each([
    { name: 'nothing', answered: undefined },
    { name: 'the flags alone', answered: '{"do_remote_decode":false,"do_remote_prefill":true}' },
    { name: 'an empty object', answered: '{}' },
    { name: 'null fields', answered: '{"remote_block_ids":null,"remote_host":null}' },
  ])(
    'gives decode nothing when prefill answered $name, and says what is missing',
    ({ answered }) => {
      expect(nixl.decodeParams(answered === undefined ? undefined : answer(answered))).toEqual({
        params: undefined,
        missing: Object.keys(whole),
      });
    },
  );
});
