import { JsonRaw, jsonRaw } from '@llm-d/json-document';
import { type MediaEntry } from '@llm-d/pipeline';
import { describe, expect, it } from '@jest/globals';
import { features } from './features.ts';

const entries: MediaEntry[] = [
  {
    modality: 'image',
    hash: 'h0',
    placeholder: { offset: 1, length: 3 },
    kwargsData: new JsonRaw([Buffer.from('"gq\\/="')]),
  },
  { modality: 'image', hash: 'h1', placeholder: { offset: 4, length: 3 } },
];
const write = (...args: Parameters<typeof features>): string =>
  jsonRaw(features(...args) ?? null).toString();

describe('features', () => {
  it('are absent without media', () => {
    expect(features([], { hasKwargs: true })).toBeUndefined();
  });

  it('list hashes and placeholders in order', () => {
    expect(write(entries, { hasKwargs: false })).toBe(
      '{"mm_hashes":{"image":["h0","h1"]},"mm_placeholders":{"image":[{"offset":1,"length":3},{"offset":4,"length":3}]}}',
    );
  });

  it('carry tensors as render wrote them, and null for one that is in the cache', () => {
    expect(write(entries, { hasKwargs: true })).toMatch(
      /"kwargs_data":{"image":\["gq\\\/=",null\]}}$/,
    );
  });

  it('may put a single item at another offset', () => {
    expect(write(entries.slice(1), { hasKwargs: false, offset: 1 })).toContain(
      '[{"offset":1,"length":3}]',
    );
  });
});
