import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { digestAside, digestOf, UrlNames } from './keys.ts';

describe('digestAside', () => {
  it.each([0, 1, 512 * 1024 - 1, 512 * 1024, 3_000_000])(
    'is the digest of %d bytes',
    async (length) => {
      // A part of a larger buffer, as bodies may be.
      const bytes = randomBytes(length + 2).subarray(1, length + 1);
      expect(await digestAside(bytes)).toBe(digestOf(bytes));
    },
  );
});

describe('UrlNames', () => {
  const name = (names: UrlNames, url: string, policy = ''): string =>
    names.of({ modality: 'image', url: new URL(url), policy });
  const names = new UrlNames('secret', '');

  it('has one name for a URL, however often it is asked', () => {
    const first = name(names, 'https://a.example/x?y=1');
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(name(names, 'https://a.example/x?y=1')).toBe(first);
    expect(name(new UrlNames('secret', ''), 'https://a.example./x?y=1#part')).toBe(first);
  });

  it('[132] has others for other URLs, rules, secrets and namespaces', () => {
    const url = 'https://a.example/x';
    const all = [
      ...[name(names, url), name(names, `${url}?`), name(names, 'https://a.example/X')],
      ...[name(names, url, 'p'), name(names, 'http://a.example/x')],
      name(new UrlNames('other', ''), url),
      name(new UrlNames('secret', 'team'), url),
    ];
    // An empty query is none.
    expect(new Set(all).size).toBe(all.length - 1);
  });
});
