import { JsonDocument } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { withoutClientTransferParams } from './client-transfer-params.ts';

const clean = (text: string): string =>
  withoutClientTransferParams(JsonDocument.parse(Buffer.from(text))).toString();

describe('transfer params of a client', () => {
  it.each([
    'kv_transfer_params',
    'ec_transfer_params',
    'bootstrap_host',
    'bootstrap_port',
    'bootstrap_room',
  ])('are removed at the top level, below extra_args and in vllm_xargs: %s', (name) => {
    for (const value of ['{"remote_host":"evil"}', '"x"', 'null', '[]', '1']) {
      expect(clean(`{"a":1.0,"${name}":${value}, "b" : 2}`)).toBe('{"a":1.0,"b" : 2}');
      expect(clean(`{"sampling_params":{"n":1,"extra_args":{"${name}":${value},"x":1}}}`)).toBe(
        '{"sampling_params":{"n":1,"extra_args":{"x":1}}}',
      );
      expect(clean(`{"vllm_xargs":{"x":1,"${name}":${value}}}`)).toBe('{"vllm_xargs":{"x":1}}');
    }
  });

  it('are removed however often they stand there and however their name is spelt', () => {
    expect(clean('{"kv_transfer_params":1,"a":1,"kv\\u005ftransfer_params":{}}')).toBe('{"a":1}');
  });

  it('are removed at both places at once', () => {
    const text =
      '{"kv_transfer_params":{},"sampling_params":{"extra_args":{"ec_transfer_params":{}}}}';
    expect(clean(text)).toBe('{"sampling_params":{"extra_args":{}}}');
  });

  it.each([
    '{ "model" : "m" , "seed":9007199254740993 }\n',
    '{"sampling_params":{"extra_args":{"x":1}}}',
    '{"sampling_params":{"extra_args":"kv_transfer_params"}}',
    '{"sampling_params":["kv_transfer_params"]}',
    '{"sampling_params":null}',
    '{"messages":[{"kv_transfer_params":1}]}',
  ])('leave %s as it is', (text) => {
    expect(clean(text)).toBe(text);
  });
});
