import { describe, expect, it } from '@jest/globals';
import { readOptions } from './options.ts';

describe('readOptions', () => {
  it('runs on and prints for people by default', () => {
    expect(readOptions([])).toMatchObject({
      ...{ isOnce: false, isJson: false, image: undefined, isByUrl: false },
    });
  });

  it('reads every flag', () => {
    const flags = ['--once', '--json', '--prompt', 'Hello', '--image', 'a.png', '--by-url'];
    expect(readOptions([...flags, '--dir', 'out'])).toEqual({
      isOnce: true,
      isJson: true,
      prompt: 'Hello',
      image: 'a.png',
      isByUrl: true,
      directory: 'out',
    });
  });

  it('shows the usage', () => {
    expect(readOptions(['-h'])).toBe('help');
  });

  it('refuses a flag it does not know', () => {
    expect(() => readOptions(['--onec'])).toThrow("Unknown option '--onec'");
  });
});
