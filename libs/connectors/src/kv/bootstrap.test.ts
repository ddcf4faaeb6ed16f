import { describe, expect, it } from '@jest/globals';
import { parseBootstrapPort } from './bootstrap.ts';

describe('SGLANG_BOOTSTRAP_PORT', () => {
  it.each([
    { text: undefined, port: 8998, isRejected: false },
    { text: '', port: 8998, isRejected: false },
    { text: '1', port: 1, isRejected: false },
    { text: '9100', port: 9100, isRejected: false },
    { text: '65535', port: 65_535, isRejected: false },
    ...['abc', '9100x', '0', '-1', '65536', '1.5', ' 9100', '1e3', '0x10'].map((text) => ({
      text,
      port: 8998,
      isRejected: true,
    })),
  ])('of $text is $port (rejected: $isRejected)', ({ text, port, isRejected }) => {
    expect(parseBootstrapPort(text)).toEqual({ port, isRejected });
  });
});
