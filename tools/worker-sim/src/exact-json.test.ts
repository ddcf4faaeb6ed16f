import { describe, expect, it } from '@jest/globals';
import { canonicalText, isObject, parseExact } from './exact-json.ts';
import { alteredField } from './kv-leases.ts';
import { fatalDefect, sideUrl } from './kv-transfer.ts';

const object = (text: string): Record<string, unknown> => {
  const value = parseExact(text);
  if (!isObject(value)) throw new Error('no object');
  return value;
};

describe('parseExact', () => {
  it.each(['9007199254740993', '-0', '1.0', '1e3', '0.1', '12', '18446744073709551615'])(
    'keeps %s as it was written',
    (digits) => {
      expect(JSON.stringify(parseExact(`{"n":[${digits}]}`))).toBe(`{"n":[${digits}]}`);
    },
  );

  it('throws a SyntaxError on what is no JSON', () =>
    expect(() => parseExact('{')).toThrow(SyntaxError));
});

describe('canonicalText', () => {
  it('does not see the order of keys and sees every digit', () => {
    const text = (json: string): string => canonicalText(parseExact(json));
    expect(text('{"a":1,"b":{"c":null,"d":[true]}}')).toBe(
      text('{"b":{"d":[true],"c":null},"a":1}'),
    );
    expect(text('9007199254740993')).not.toBe(text('9007199254740992'));
    expect(text('1')).not.toBe(text('1.0'));
    expect(text('1')).not.toBe(text('"1"'));
  });
});

describe('alteredField', () => {
  const answered = object(
    '{"do_remote_prefill":true,"do_remote_decode":false,"a":9007199254740993,"b":null}',
  );
  it.each([
    {
      name: 'the same in another order',
      json: '{"b":null,"a":9007199254740993}',
      field: undefined,
    },
    {
      name: 'flags turned round',
      json: '{"do_remote_prefill":false,"do_remote_decode":true,"a":9007199254740993,"b":null}',
      field: undefined,
    },
    { name: 'a null left out', json: '{"a":9007199254740993}', field: 'b' },
    { name: 'one digit', json: '{"a":9007199254740992,"b":null}', field: 'a' },
    { name: 'one more', json: '{"a":9007199254740993,"b":null,"c":1}', field: 'c' },
  ])('$name: $field', ({ json, field }) =>
    expect(alteredField(answered, object(json))).toBe(field),
  );
});

describe('fatalDefect', () => {
  const whole = {
    remote_block_ids: [[1]],
    remote_engine_id: 'e',
    remote_request_id: 'r',
    remote_host: 'h',
    remote_port: 1,
  };
  it.each([
    { name: 'whole', params: whole, fatal: undefined },
    { name: 'a flat block list', params: { ...whole, remote_block_ids: [1, 2] }, fatal: undefined },
    {
      name: 'no blocks',
      params: { ...whole, remote_block_ids: null },
      fatal: 'remote_block_ids holds no blocks',
    },
    {
      name: 'no port',
      params: { ...whole, remote_port: undefined },
      fatal: 'remote_port is missing',
    },
  ])('$name', ({ params, fatal }) => expect(fatalDefect(params)).toBe(fatal));
});

it.each([
  { host: '10.0.0.1', port: 5600, url: 'http://10.0.0.1:5600/p' },
  { host: 'fd00::7', port: 5600, url: 'http://[fd00::7]:5600/p' },
])('a side channel of $host is $url', ({ host, port, url }) =>
  expect(sideUrl(host, port, '/p')).toBe(url),
);
