import { describe, expect, it } from '@jest/globals';
import { isLoopback, parseListenAddress } from './listen-address.ts';

describe('parseListenAddress', () => {
  it.each([
    { text: ':8080', address: { port: 8080 } },
    { text: '127.0.0.1:0', address: { host: '127.0.0.1', port: 0 } },
    { text: '0.0.0.0:65535', address: { host: '0.0.0.0', port: 65_535 } },
    { text: 'localhost:80', address: { host: 'localhost', port: 80 } },
    { text: '[::1]:80', address: { host: '::1', port: 80 } },
    { text: '[::]:8080', address: { host: '::', port: 8080 } },
  ])('reads $text', ({ text, address }) => {
    expect(parseListenAddress(text)).toEqual(address);
  });

  it.each([
    '',
    '8080',
    ':',
    ':http',
    ':65536',
    ':-1',
    '::1:80',
    '[::1]',
    'a b:80',
    'http://x:80',
    '[]:80',
  ])('refuses %p', (text) => {
    expect(parseListenAddress(text)).toBeUndefined();
  });
});

describe('isLoopback', () => {
  it.each([
    { host: '127.0.0.1', expected: true },
    { host: '127.1.2.3', expected: true },
    { host: '::1', expected: true },
    { host: 'localhost', expected: true },
    { host: '0.0.0.0', expected: false },
    { host: '::', expected: false },
    { host: '10.0.0.1', expected: false },
    { host: '127.evil.example', expected: false },
  ])('$host: $expected', ({ host, expected }) => {
    expect(isLoopback({ host, port: 1 })).toBe(expected);
  });

  it('every interface is no loopback', () => {
    expect(isLoopback({ port: 1 })).toBe(false);
  });
});
