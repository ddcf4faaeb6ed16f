import { describe, expect, it } from '@jest/globals';
import { defaultFreshnessRules, lifetimeOf, signedUntil } from './freshness.ts';

const now = Date.parse('2026-11-30T12:00:00Z');
const url = new URL('https://images.example/a.png');
const date = new Date(now).toUTCString();
const at = (offsetSeconds: number): string => new Date(now + offsetSeconds * 1000).toUTCString();

type Given = Readonly<Record<string, string | string[]>>;
const lifetime = (headers: Given, from = url, random = 0) =>
  lifetimeOf([{ url: from, headers }], now, defaultFreshnessRules, () => random);

/** Seconds of freshness; undefined when it may not be stored. */
const freshSeconds = (headers: Given, from = url): number | undefined => {
  const found = lifetime(headers, from);
  return found && (found.freshUntil - now) / 1000;
};

it('[130] what was asked for with credentials is stored only when it says public', () => {
  const of = (control: string) =>
    lifetimeOf(
      [{ url, headers: { 'cache-control': control }, isAuthorized: true }],
      now,
      defaultFreshnessRules,
    );
  expect(of('max-age=60')).toBeUndefined();
  expect(of('public, max-age=60')).toBeDefined();
});

describe('how long an answer is fresh', () => {
  it.each<{ name: string; headers: Given; expected: number | undefined }>([
    { name: 'no-store', headers: { 'cache-control': 'no-store' }, expected: undefined },
    { name: 'private', headers: { 'cache-control': 'Private, max-age=9' }, expected: undefined },
    { name: 'Vary: *', headers: { vary: '*' }, expected: undefined },
    { name: 'another Vary', headers: { vary: 'accept' }, expected: 300 },
    { name: 'a cookie', headers: { 'set-cookie': ['a=b'] }, expected: undefined },
    {
      name: 'a cookie that is public',
      headers: { 'set-cookie': ['a=b'], 'cache-control': 'public, max-age=7' },
      expected: 7,
    },
    { name: 'no-cache', headers: { 'cache-control': 'no-cache, max-age=9' }, expected: 0 },
    { name: 'max-age=0', headers: { 'cache-control': 'max-age=0' }, expected: 0 },
    { name: 'max-age', headers: { 'cache-control': 'max-age=120' }, expected: 120 },
    { name: 'a quoted max-age', headers: { 'cache-control': 'max-age="12"' }, expected: 12 },
    { name: 'a senseless max-age', headers: { 'cache-control': 'max-age=x' }, expected: 0 },
    {
      name: 's-maxage before max-age',
      headers: { 'cache-control': 'max-age=10, s-maxage=20' },
      expected: 20,
    },
    { name: 'Age', headers: { 'cache-control': 'max-age=120', age: '100' }, expected: 20 },
    {
      name: 'more Age than life',
      headers: { 'cache-control': 'max-age=1', age: '5' },
      expected: 0,
    },
    { name: 'Expires by Date', headers: { expires: at(30), date: at(-10) }, expected: 40 },
    { name: 'Expires: 0', headers: { expires: '0', date }, expected: 0 },
    {
      name: 'max-age before Expires',
      headers: { 'cache-control': 'max-age=5', expires: at(99) },
      expected: 5,
    },
    { name: 'Last-Modified', headers: { date, 'last-modified': at(-1000) }, expected: 100 },
    { name: 'an old Last-Modified', headers: { date, 'last-modified': at(-1e7) }, expected: 3600 },
    { name: 'nothing', headers: {}, expected: 300 },
    { name: 'a year', headers: { 'cache-control': 'max-age=31536000' }, expected: 86_400 },
  ])('$name: $expected s', ({ headers, expected }) => {
    expect(freshSeconds(headers)).toBe(expected);
  });

  it('ends a long life a little earlier, and never later, than the origin allows', () => {
    const headers = { 'cache-control': 'max-age=1000' };
    expect(lifetime(headers, url, 1)?.freshUntil).toBe(now + 900_000);
    expect(lifetime({ 'cache-control': 'max-age=60' }, url, 1)?.freshUntil).toBe(now + 60_000);
  });

  it.each(['must-revalidate', 'proxy-revalidate', 'no-cache'])(
    'serves nothing stale: %s',
    (name) => {
      const headers = { 'cache-control': `max-age=9, ${name}` };
      expect(lifetime(headers)?.mustRevalidate).toBe(true);
      expect(lifetime({})?.mustRevalidate).toBe(false);
    },
  );

  it('is shortened by a redirect on the way, and forbidden by one', () => {
    const life = (control: string): number | undefined => {
      const last = { url, headers: { 'cache-control': 'max-age=50' } };
      const first = { url, headers: { 'cache-control': control } };
      const found = lifetimeOf([first, last], now, defaultFreshnessRules);
      return found && (found.freshUntil - now) / 1000;
    };
    expect(life('')).toBe(50);
    expect(life('max-age=9')).toBe(9);
    expect(life('no-store')).toBeUndefined();
  });
});

describe('signed URLs', () => {
  it.each([
    'X-Amz-Date=20261130T115950Z&X-Amz-Expires=30',
    'X-Goog-Date=20261130T115950Z&X-Goog-Expires=30',
    'se=2026-11-30T12%3A00%3A20Z',
    `Expires=${now / 1000 + 20}`,
  ])('[131] are fresh no longer than their signature: %s', (query) => {
    const signed = new URL(`https://bucket.example/a.png?${query}`);
    expect(signedUntil(signed)).toBe(now + 20_000);
    expect(freshSeconds({ 'cache-control': 'max-age=3600' }, signed)).toBe(20);
    expect(lifetime({ 'cache-control': 'max-age=3600' }, signed)?.mustRevalidate).toBe(true);
  });

  it('that have ended are stale at once', () => {
    const signed = new URL('https://bucket.example/a.png?Expires=1');
    expect(freshSeconds({}, signed)).toBe(0);
  });

  it('are not seen where there is no time', () => {
    expect(signedUntil(new URL('https://a.example/?Expires=soon&se=&X-Amz-Expires=5'))).toBe(
      undefined,
    );
  });
});
