import { describe, expect, it } from '@jest/globals';
import { redactBody, redactHeaders } from './redact.ts';

const redacted = (value: unknown): unknown => redactBody(Buffer.from(JSON.stringify(value)));

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = { a: value };
  return value;
}

describe('redactBody', () => {
  it.each([
    { name: 'a text of 50 bytes', value: 'x'.repeat(50), shown: 'x'.repeat(50) },
    { name: 'a text of 51 bytes', value: 'x'.repeat(51), shown: '...' },
    { name: 'a text of 26 characters and 52 bytes', value: 'ü'.repeat(26), shown: '...' },
    { name: 'a short data URI', value: 'data:,x', shown: 'data:,x' },
    { name: 'a data URI', value: `data:image/png;base64,${'A'.repeat(50)}`, shown: '[base64]' },
    { name: 'a short URL', value: 'http://a/b', shown: 'http://a/b' },
    { name: 'a long http URL', value: `http://a/${'b'.repeat(50)}`, shown: '[url]' },
    { name: 'a long https URL', value: `https://a/${'b'.repeat(50)}`, shown: '[url]' },
    {
      name: 'ten elements',
      value: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
      shown: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    },
    {
      name: 'twelve elements',
      value: ['x'.repeat(60), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
      shown: ['...', 2, 3, 4, 5, 6, 7, 8, 9, 10, '... +2 more'],
    },
    {
      name: 'other scalars',
      value: { a: 1.5, b: true, c: null },
      shown: { a: 1.5, b: true, c: null },
    },
    {
      name: 'texts inside',
      value: { messages: [{ role: 'user', content: 'p'.repeat(51) }] },
      shown: { messages: [{ role: 'user', content: '...' }] },
    },
  ])('shows $name as it may be shown', ({ value, shown }) => {
    expect(redacted(value)).toEqual(shown);
  });

  it('shows 32 levels and no more', () => {
    expect(JSON.stringify(redacted(nested(32)))).toBe(JSON.stringify(nested(32)));
    expect(JSON.stringify(redacted(nested(33)))).toContain('"[truncated]"');
  });

  it.each([
    { name: 'a short text', body: 'data: {}', shown: 'data: {}' },
    { name: '200 bytes', body: 'x'.repeat(200), shown: 'x'.repeat(200) },
    { name: '201 bytes', body: 'x'.repeat(201), shown: `${'x'.repeat(200)}...` },
    {
      name: 'a character at the edge',
      body: `${'x'.repeat(199)}üü`,
      shown: `${'x'.repeat(199)}...`,
    },
    { name: 'nothing', body: '', shown: '' },
  ])('shows what is not JSON by its first 200 bytes: $name', ({ body, shown }) => {
    expect(redactBody(Buffer.from(body))).toBe(shown);
  });
});

describe('redactHeaders', () => {
  it.each([
    ...['Authorization', 'proxy-authorization', 'COOKIE', 'Set-Cookie', 'X-Api-Key'],
    'x-auth-token',
  ])('hides the value of %s', (name) => {
    expect(redactHeaders([name, 'secret'])).toEqual({ [name.toLowerCase()]: '[REDACTED]' });
  });

  it.each([
    { name: 'names in lower case', headers: ['X-A', 'b'], shown: { 'x-a': 'b' } },
    { name: 'the first of several values', headers: ['a', '1', 'A', '2'], shown: { a: '1' } },
    { name: 'an empty value', headers: ['a', ''], shown: { a: '' } },
    { name: '256 characters', headers: ['a', 'x'.repeat(256)], shown: { a: 'x'.repeat(256) } },
    {
      name: '257 characters cut',
      headers: ['a', 'x'.repeat(257)],
      shown: { a: `${'x'.repeat(256)}...[truncated]` },
    },
  ])('shows $name', ({ headers, shown }) => {
    expect(redactHeaders(headers)).toEqual(shown);
  });
});
