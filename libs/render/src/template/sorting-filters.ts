import { badRequest } from '../errors.ts';
import { dictItems, getItem } from '../python/attributes.ts';
import { bindArguments } from '../python/call-arguments.ts';
import { areEqual, compare, isTruthy, iterate, requireHashable } from '../python/operators.ts';
import { isDict, Sequence, type CallArguments, type Value } from '../python/value.ts';
import { attributeOf } from './attribute-path.ts';

/** Pairs of a dict in the order of their keys or values. */
export function dictsort(value: Value, args: CallArguments): Value {
  const bound = bindArguments('dictsort', args, ['case_sensitive', 'by', 'reverse']);
  if (!isDict(value)) throw badRequest('dictsort needs a dict');
  const position = bound.get('by') === 'value' ? 1n : 0n;
  const key = caseKey(isTruthy(bound.get('case_sensitive')));
  return sorted(
    dictItems(value).take(),
    (pair) => key(getItem(pair, position)),
    isTruthy(bound.get('reverse')),
  );
}

/** The items in order. */
export function sort(value: Value, args: CallArguments): Value {
  const bound = bindArguments('sort', args, ['reverse', 'case_sensitive', 'attribute']);
  const attribute = bound.get('attribute');
  const key = caseKey(isTruthy(bound.get('case_sensitive')));
  return sorted(
    iterate(value),
    (item) => key(attribute === undefined ? item : attributeOf(item, attribute)),
    isTruthy(bound.get('reverse')),
  );
}

/** The largest item for the sign 1, the smallest for -1. */
export function extreme(value: Value, sign: number): Value {
  const key = caseKey(false);
  let best: Value;
  iterate(value).forEach((item, at) => {
    if (at === 0 || compare(key(item), key(best)) * sign > 0) best = item;
  });
  return best;
}

/** The first of equal items. */
export function unique(value: Value, args: CallArguments): Value {
  const bound = bindArguments('unique', args, ['case_sensitive', 'attribute']);
  const attribute = bound.get('attribute');
  const key = caseKey(isTruthy(bound.get('case_sensitive')));
  const seen: Value[] = [];
  const kept = iterate(value).filter((item) => {
    const own = key(attribute === undefined ? item : attributeOf(item, attribute));
    requireHashable(own);
    if (seen.some((other) => areEqual(other, own))) return false;
    seen.push(own);
    return true;
  });
  return new Sequence('generator', kept);
}

function caseKey(isCaseSensitive: boolean): (value: Value) => Value {
  return (value) => (!isCaseSensitive && typeof value === 'string' ? value.toLowerCase() : value);
}

function sorted(
  source: readonly Value[],
  key: (item: Value) => Value,
  isReverse: boolean,
): Value[] {
  const sign = isReverse ? -1 : 1;
  return [...source].sort((a, b) => sign * compare(key(a), key(b)));
}
