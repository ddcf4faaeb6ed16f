import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { expectGolden } from './golden.ts';

const previous = process.env['UPDATE_GOLDEN'];
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'golden-'));
  process.env['UPDATE_GOLDEN'] = '1';
});

afterEach(() => {
  delete process.env['UPDATE_GOLDEN'];
  if (previous !== undefined) process.env['UPDATE_GOLDEN'] = previous;
  rmSync(directory, { recursive: true });
});

describe('expectGolden', () => {
  it('writes a file when asked to, and then holds the value against it', () => {
    expectGolden(directory, 'a/b.json', { n: 1 });
    expect(readFileSync(join(directory, 'testdata/a/b.json'), 'utf8')).toBe('{ "n": 1 }\n');
    delete process.env['UPDATE_GOLDEN'];
    expectGolden(directory, 'a/b.json', { n: 1 });
    expect(() => expectGolden(directory, 'a/b.json', { n: 2 })).toThrow('toBe');
  });

  it('sees a digit that a parser would lose', () => {
    expectGolden(directory, 'n.json', Buffer.from('{"n":9007199254740993}'));
    delete process.env['UPDATE_GOLDEN'];
    expectGolden(directory, 'n.json', '{ "n": 9007199254740993 }');
    expect(() => expectGolden(directory, 'n.json', '{"n":9007199254740992}')).toThrow();
  });

  it('keeps every byte of a file that is not .json', () => {
    const events = 'data: {"a":1}\n\n';
    expectGolden(directory, 'stream.sse', events);
    delete process.env['UPDATE_GOLDEN'];
    expectGolden(directory, 'stream.sse', Buffer.from(events));
    expect(() => expectGolden(directory, 'stream.sse', 'data: {"a": 1}\n\n')).toThrow();
  });

  it('says what to do when the file is missing', () => {
    delete process.env['UPDATE_GOLDEN'];
    expect(() => expectGolden(directory, 'none.json', 1)).toThrow('UPDATE_GOLDEN=1');
  });
});
