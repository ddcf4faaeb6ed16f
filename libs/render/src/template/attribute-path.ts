import { getItem } from '../python/attributes.ts';
import { toText } from '../python/repr.ts';
import { type Value } from '../python/value.ts';

/** `a.b.0` as Jinja's filters follow it. */
export function attributeOf(value: Value, path: Value): Value {
  if (typeof path === 'bigint') return getItem(value, path);
  let current = value;
  for (const name of toText(path).split('.')) {
    current = getItem(current, /^\d+$/.test(name) ? BigInt(name) : name);
  }
  return current;
}
