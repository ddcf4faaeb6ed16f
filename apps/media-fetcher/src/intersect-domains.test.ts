import { describe, expect, it } from '@jest/globals';
import { matchesDomain, parseAllowedDomains } from '@llm-d/media';
import { intersectDomains } from './intersect-domains.ts';

const entries = [
  ...['example.com', '*.example.com', '.example.com', 'a.example.com', '*.a.example.com'],
  ...['.a.example.com', 'https://example.com', 'example.com:8080', 'https://.example.com:8443'],
  ...['other.org', '192.0.2.1', 'badexample.com'],
];
const hosts = ['example.com', 'a.example.com', 'b.a.example.com', 'x.example.com', 'other.org'];
const urls = [...hosts, 'badexample.com', '192.0.2.1'].flatMap((host) =>
  ['http://H/', 'https://H/', 'http://H:8080/', 'https://H:8443/'].map(
    (form) => new URL(form.replace('H', host)),
  ),
);

describe('intersectDomains', () => {
  it('covers exactly what both lists cover', () => {
    const rules = entries.map((entry) => parseAllowedDomains([entry]));
    const wrong: unknown[] = [];
    for (const one of rules) {
      for (const other of rules) {
        for (const third of rules) {
          const a = [...one, ...third];
          const both = intersectDomains(a, other);
          for (const url of urls) {
            const expected = matchesDomain(url, a) && matchesDomain(url, other);
            if (matchesDomain(url, both) !== expected) wrong.push({ a, other, url: url.href });
          }
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it('an empty list takes nothing away', () => {
    const rules = parseAllowedDomains(['example.com']);
    expect(intersectDomains([], rules)).toEqual(rules);
    expect(intersectDomains(rules, [])).toEqual(rules);
    expect(intersectDomains([], [])).toEqual([]);
  });

  it('lists without a common host allow none, not all', () => {
    const none = intersectDomains(parseAllowedDomains(['a.org']), parseAllowedDomains(['b.org']));
    expect(none).not.toEqual([]);
    expect(matchesDomain(new URL('http://a.org/'), none)).toBe(false);
  });
});
