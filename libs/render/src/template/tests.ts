import { badRequest } from '../errors.ts';
import { areEqual, arithmetic, compare, contains } from '../python/operators.ts';
import { toText } from '../python/repr.ts';
import { Callable, isDict, isNumber, Sequence, type Value } from '../python/value.ts';

type Test = (value: Value, argument: Value) => boolean;

const equal: Test = (value, other) => areEqual(value, other);
const unequal: Test = (value, other) => !areEqual(value, other);
const above: Test = (value, other) => compare(value, other) > 0;
const notBelow: Test = (value, other) => compare(value, other) >= 0;
const below: Test = (value, other) => compare(value, other) < 0;
const notAbove: Test = (value, other) => compare(value, other) <= 0;

/** Jinja's tests, with the names that take an argument in `select` and `selectattr`. */
export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['defined', (value) => value !== undefined],
  ['undefined', (value) => value === undefined],
  ['none', (value) => value === null],
  ['boolean', (value) => typeof value === 'boolean'],
  ['true', (value) => value === true],
  ['false', (value) => value === false],
  ['integer', (value) => typeof value === 'bigint'],
  ['float', (value) => typeof value === 'number'],
  ['number', (value) => isNumber(value)],
  ['string', (value) => typeof value === 'string'],
  ['mapping', (value) => isDict(value)],
  ['iterable', isIterable],
  ['sequence', isSequence],
  // Undefined has a `__call__`, which raises.
  ['callable', (value) => value === undefined || value instanceof Callable],
  ['lower', (value) => isCased(value, 'lower')],
  ['upper', (value) => isCased(value, 'upper')],
  ['odd', (value) => areEqual(remainder(value, 2n), 1n)],
  ['even', (value) => areEqual(remainder(value, 2n), 0n)],
  ['divisibleby', (value, other) => areEqual(remainder(value, other), 0n)],
  ['sameas', (value, other) => value === other],
  ['in', (value, container) => contains(container, value)],
  ['eq', equal],
  ['equalto', equal],
  ['==', equal],
  ['ne', unequal],
  ['!=', unequal],
  ['gt', above],
  ['greaterthan', above],
  ['>', above],
  ['ge', notBelow],
  ['>=', notBelow],
  ['lt', below],
  ['lessthan', below],
  ['<', below],
  ['le', notAbove],
  ['<=', notAbove],
]);

function isIterable(value: Value): boolean {
  if (value === undefined || typeof value === 'string') return true;
  return Array.isArray(value) || isDict(value) || value instanceof Sequence;
}

/** Jinja asks for `len` and `[]`: text and dicts count, Undefined too since its `len` is 0. */
function isSequence(value: Value): boolean {
  if (value instanceof Sequence) return value.kind === 'tuple' || value.kind === 'range';
  return isIterable(value);
}

function isCased(value: Value, which: 'lower' | 'upper'): boolean {
  const text = toText(value);
  const lower = text.toLowerCase();
  const upper = text.toUpperCase();
  return lower !== upper && text === (which === 'lower' ? lower : upper);
}

function remainder(value: Value, divisor: Value): Value {
  if (!isNumber(value)) throw badRequest('a test for divisibility needs a number');
  return arithmetic('%', value, divisor, 0);
}

/** The predicate that `select(name, argument)` applies; without a name the truth of the item. */
export function testByName(name: string): Test {
  const test = TESTS.get(name);
  if (test === undefined) throw badRequest(`No test named '${name}'.`);
  return test;
}
