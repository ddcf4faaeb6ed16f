import { describe, expect, it } from '@jest/globals';
import { OpenItems } from './open-items.ts';

describe('OpenItems', () => {
  it('holds what was added and not removed, in whatever order it goes', () => {
    const open = new OpenItems<string>();
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((item) => open.add(item));
    b?.();
    expect(open.all().sort()).toEqual(['a', 'c', 'd']);
    d?.();
    a?.();
    expect(open.all()).toEqual(['c']);
    const e = open.add('e');
    c?.();
    expect(open.all()).toEqual(['e']);
    e();
    expect(open.size).toBe(0);
  });

  it('removes once: a second call does not take what came into the place', () => {
    const open = new OpenItems<string>();
    const remove = open.add('a');
    remove();
    open.add('b');
    remove();
    expect(open.all()).toEqual(['b']);
  });

  it('keeps equal items apart', () => {
    const open = new OpenItems<number>();
    const remove = open.add(1);
    open.add(1);
    remove();
    expect(open.all()).toEqual([1]);
  });
});
