import { describe, expect, it } from '@jest/globals';
import { matchesDomain, parseAllowedDomains } from './domain-rules.ts';

describe('rows 40, 51 to 56, U38: allowed_domains', () => {
  it.each([
    ['images.example.com', 'http://images.example.com/', true],
    ['images.example.com', 'http://IMAGES.EXAMPLE.COM/', true],
    ['Images.Example.Com.', 'http://images.example.com/', true],
    ['images.example.com', 'http://images.example.com./', true],
    ['images.example.com', 'http://sub.images.example.com/', false],
    ['images.example.com', 'http://evil-images.example.com/', false],
    ['*.example.com', 'http://a.example.com/', true],
    ['*.example.com', 'http://a.b.example.com/', true],
    ['*.example.com', 'http://example.com/', false],
    ['*.example.com', 'http://xexample.com/', false],
    ['*.example.com', 'http://example.com.evil.net/', false],
    ['.example.com', 'http://example.com/', true],
    ['.example.com', 'http://sub.example.com/', true],
    ['.example.com', 'http://xexample.com/', false],
    ['https://cdn.example.com:8443', 'http://cdn.example.com:8443/', false],
    ['https://cdn.example.com:8443', 'https://cdn.example.com/', false],
    ['https://cdn.example.com:8443', 'https://cdn.example.com:8443/', true],
    ['example.com:80', 'http://example.com/', true],
    ['example.com:80', 'http://example.com:8080/', false],
    ['example.com:443', 'https://example.com/', true],
    ['10.77.0.1', 'http://10.77.0.1:1234/', true],
    ['10.77.0.1', 'http://10.77.0.2/', false],
    ['2001:db8::1', 'http://[2001:DB8:0::1]/', true],
    ['[2001:db8::1]:8080', 'http://[2001:db8::1]:8080/', true],
    ['[2001:db8::1]:8080', 'http://[2001:db8::1]/', false],
    ['例え.jp', 'http://xn--r8jz45g.jp/', true],
  ])('%s for %s: %s', (entry, url, expected) => {
    expect(matchesDomain(new URL(url), parseAllowedDomains([entry]))).toBe(expected);
  });

  it.each([
    ...[
      '',
      '*',
      '*.',
      '.',
      '*.com',
      '.com',
      'example.com/x',
      'example.com?x',
      'example.com#x',
      123,
    ],
    ...[null, 'user@example.com', 'a b.com', 'http://example.com', '*.1.2.3.4', 'a..b', 'x:99999'],
    ...['x:', 'a.*.com', 'https://', 'x:0'],
  ])('refuses the entry %j', (entry) => {
    expect(() => parseAllowedDomains([entry])).toThrow(
      `allowed_domains: entry ${JSON.stringify(entry)}: `,
    );
  });

  it.each(['images.example.com', undefined, null, {}])('refuses %j instead of a list', (list) => {
    expect(() => parseAllowedDomains(list)).toThrow('allowed_domains: expected a list');
  });
});
