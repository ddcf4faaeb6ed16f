import { describe, expect, it } from '@jest/globals';
import { Gathering } from './gathering.ts';

describe('Gathering', () => {
  it('does what was asked for in one turn together, each key by itself, and says who was which', async () => {
    const calls: [string, string[]][] = [];
    const gathering = new Gathering((key, items: readonly string[]) => {
      calls.push([key, [...items]]);
      return Promise.resolve(items.length);
    });
    const later = Promise.resolve().then(() => gathering.add('a', '3'));
    const added = [gathering.add('a', '1'), gathering.add('b', '2'), later];
    expect(await Promise.all(added)).toEqual([
      { result: 2, index: 0 },
      { result: 1, index: 0 },
      { result: 2, index: 1 },
    ]);
    await gathering.add('a', '4');
    expect(calls).toEqual([
      ['a', ['1', '3']],
      ['b', ['2']],
      ['a', ['4']],
    ]);
  });

  it('fails those alone whose key failed', async () => {
    const gathering = new Gathering((key) =>
      key === 'bad' ? Promise.reject(new Error('no')) : Promise.resolve(),
    );
    const ends = await Promise.allSettled(
      ['bad', 'good', 'bad'].map((key) => gathering.add(key, 0)),
    );
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected']);
  });
});
