import { describe, expect, it } from '@jest/globals';

import { mmHash, type MmHashInput } from './mm-hash.ts';

const modelId = 'Qwen/Qwen3-VL-2B-Instruct';
const content = Buffer.from('hello');
const factors = { mm_processor_kwargs: new Map([['max_pixels', 1003520n]]) };
const convertedOn = [255, 255, 255] as const;

interface Vector {
  readonly name: string;
  readonly input: MmHashInput;
  readonly blake3: string;
  readonly sha256: string;
}

/** render.md 14.1, computed by vLLM's own hasher code. */
const vectors: Vector[] = [
  {
    name: 'a plain image under flat',
    input: { modelId, content, scheme: 'flat' },
    blake3: '46f64512ec85212368268f4295bc885b4f8a52c8615cbce837bd99bf03a2caf1',
    sha256: '8ee83d0cd4e76844df221bd9b686055f63b3a7f0e9d009b5485b385701b7df45',
  },
  {
    name: 'a plain image under nested',
    input: { modelId, content, scheme: 'nested' },
    blake3: '46f64512ec85212368268f4295bc885b4f8a52c8615cbce837bd99bf03a2caf1',
    sha256: '8ee83d0cd4e76844df221bd9b686055f63b3a7f0e9d009b5485b385701b7df45',
  },
  {
    name: 'an image with a factor under flat',
    input: { modelId, content, factors, scheme: 'flat' },
    blake3: '8b2b0766a791c7139ae72adf276e7350ce22c69f37f490cf3d418e7ae9253bbe',
    sha256: '39d57d2d098b92254fa84a80acfa97c5c237be1558dec3c9389b1dca06408328',
  },
  {
    name: 'an image with a factor under nested',
    input: { modelId, content, factors, scheme: 'nested' },
    blake3: '1151880b60e44856633fd27cf86639784d4dfaf306ef2341cd689afff606a104',
    sha256: '1d291a4acb6eea76768aee5689070507e7b71cbf903e03a142986601c1b91f0b',
  },
  {
    name: 'a converted image under flat',
    input: { modelId, content, convertedOn, scheme: 'flat' },
    blake3: '3de25ec8c9592db23a2b761efa6146aecded1258b9aca01c2d4a477b81b9004f',
    sha256: 'ecb19cef07168e0daddd2e3ba6bde93bf1a4b8b984f8dc745ea1f1788391c699',
  },
  {
    name: 'a converted image under nested',
    input: { modelId, content, convertedOn, scheme: 'nested' },
    blake3: '3de25ec8c9592db23a2b761efa6146aecded1258b9aca01c2d4a477b81b9004f',
    sha256: 'ecb19cef07168e0daddd2e3ba6bde93bf1a4b8b984f8dc745ea1f1788391c699',
  },
  {
    name: 'a plain image',
    input: { modelId, content },
    blake3: 'a068cc8a0df72f63cc9f86ac8e4eee39350b4add9c3e35b2c8cb1e0412b8fdde',
    sha256: 'ada2cd009d71290a28760ea890248ffa376d9b4ea38b9c53ca97db5c205227fd',
  },
  {
    name: 'an image with a factor',
    input: { modelId, content, factors },
    blake3: '50d374f3e7e225c7b90fce1bf421c1fd4241485f57de132cc0fc4add2b3bc45a',
    sha256: 'f89d9063b5e2635543f8e7b1be0f364c5934ca00c214aaa400551c7e60378646',
  },
  {
    name: 'a converted image',
    input: { modelId, content, convertedOn },
    blake3: '9f23cc23c04550e30eaea2cbe1d492efbb80b47434b10f651ffbddb9ab52edde',
    sha256: 'f6d7e12d6c5ca52311940ca13457e8af3e99cbd3e6530313b7851a08f6e7d6a0',
  },
];

describe('mmHash', () => {
  it.each(vectors)('hashes $name as vLLM does', ({ input, blake3, sha256 }) => {
    expect(mmHash(input)).toBe(blake3);
    expect(mmHash({ ...input, algorithm: 'sha256' })).toBe(sha256);
    expect(mmHash({ ...input, algorithm: 'sha512' })).toMatch(/^[0-9a-f]{128}$/);
  });

  it('leaves empty factors out', () => {
    expect(mmHash({ modelId, content, factors: { media_io_kwargs: new Map() } })).toBe(
      mmHash({ modelId, content }),
    );
  });

  it('refuses decode options under flat, where their place is not known', () => {
    const decodeFactors = { media_io_kwargs: factors.mm_processor_kwargs };
    expect(() => mmHash({ modelId, content, factors: decodeFactors, scheme: 'flat' })).toThrow(
      /media_io_kwargs under the hash scheme flat/,
    );
  });

  it('tells models, contents and factors apart', () => {
    const hashes = [
      mmHash({ modelId, content }),
      mmHash({ modelId: 'other', content }),
      mmHash({ modelId, content: 'hello' }),
      mmHash({ modelId, content, factors }),
      mmHash({ modelId, content, factors: { media_io_kwargs: factors.mm_processor_kwargs } }),
    ];
    expect(new Set(hashes).size).toBe(hashes.length);
  });
});
