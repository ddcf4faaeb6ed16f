import { badRequest } from '../errors.ts';
import { compareText, textLength } from './text.ts';
import { isDict, isNumber, Sequence, typeName, type Value } from './value.ts';

/** Python's truth: empty text, containers and zero are false; a generator is always true. */
export function isTruthy(value: Value): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'bigint') return value !== 0n;
  if (typeof value === 'number') return value !== 0;
  if (typeof value === 'string') return value !== '';
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (value instanceof Sequence) return value.kind === 'generator' || value.take().length > 0;
  return true;
}

/** `left == right`: deep for containers, by value across int, float and bool. */
export function areEqual(left: Value, right: Value): boolean {
  if (isNumber(left) && isNumber(right)) {
    // Loose equality compares a bigint with a float by value, as Python compares int and float.
    return asNumeric(left) == asNumeric(right);
  }
  if (Array.isArray(left) && Array.isArray(right)) return areItemsEqual(left, right);
  if (left instanceof Sequence && right instanceof Sequence && left.kind === right.kind) {
    return (
      left === right || (left.kind !== 'generator' && areItemsEqual(left.take(), right.take()))
    );
  }
  if (isDict(left) && isDict(right)) {
    return (
      left.size === right.size &&
      [...left].every(([key, item]) => right.has(key) && areEqual(item, right.get(key)))
    );
  }
  return left === right;
}

function areItemsEqual(left: readonly Value[], right: readonly Value[]): boolean {
  return left.length === right.length && left.every((item, at) => areEqual(item, right[at]));
}

/** Negative, zero or positive, as Python orders the two; values without an order are an error. */
export function compare(left: Value, right: Value): number {
  if (isNumber(left) && isNumber(right)) {
    const a = asNumeric(left);
    const b = asNumeric(right);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  const a = orderedItems(left);
  const b = orderedItems(right);
  if (a !== undefined && b !== undefined && Array.isArray(left) === Array.isArray(right)) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) {
      if (!areEqual(a[at], b[at])) return compare(a[at], b[at]);
    }
    return a.length - b.length;
  }
  throw badRequest(
    `'<' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`,
  );
}

function orderedItems(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  return value instanceof Sequence && value.kind === 'tuple' ? value.take() : undefined;
}

/** `item in container`. */
export function contains(container: Value, item: Value): boolean {
  if (container === undefined) return false;
  if (typeof container === 'string') {
    if (typeof item !== 'string') {
      throw badRequest(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    }
    return container.includes(item);
  }
  if (isDict(container)) {
    requireHashable(item);
    return container.has(item);
  }
  if (Array.isArray(container)) return container.some((other) => areEqual(other, item));
  if (container instanceof Sequence) return container.take().some((other) => areEqual(other, item));
  throw badRequest(`argument of type '${typeName(container)}' is not iterable`);
}

/** Throws for what cannot be a key: lists and dicts. */
export function requireHashable(value: Value): void {
  if (Array.isArray(value) || isDict(value)) {
    throw badRequest(`unhashable type: '${typeName(value)}'`);
  }
}

/** The items a `for` loop visits: keys of a dict, characters of a text, nothing of Undefined. */
export function iterate(value: Value): readonly Value[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  if (typeof value === 'string') return Array.from(value);
  if (isDict(value)) return [...value.keys()];
  if (value instanceof Sequence) return value.take();
  throw badRequest(`'${typeName(value)}' object is not iterable`);
}

/** `len(value)`. */
export function lengthOf(value: Value): bigint {
  if (value === undefined) return 0n;
  if (typeof value === 'string') return BigInt(textLength(value));
  if (Array.isArray(value)) return BigInt(value.length);
  if (isDict(value)) return BigInt(value.size);
  if (value instanceof Sequence && value.kind !== 'generator') return BigInt(value.take().length);
  throw badRequest(`object of type '${typeName(value)}' has no len()`);
}

/** The operators of {@link arithmetic}. */
export type ArithmeticOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**';

/** Arithmetic on numbers, and `+` and `*` on text and lists. `maxLength` bounds what `*` and `+` may build. */
export function arithmetic(
  operator: ArithmeticOperator,
  left: Value,
  right: Value,
  maxLength: number,
): Value {
  if (isNumber(left) && isNumber(right)) {
    return numeric(operator, asNumeric(left), asNumeric(right));
  }
  if (operator === '+') {
    if (typeof left === 'string' && typeof right === 'string') {
      return bounded(left + right, maxLength);
    }
    if (Array.isArray(left) && Array.isArray(right)) return [...left, ...right];
    if (left instanceof Sequence && right instanceof Sequence && left.kind === right.kind) {
      return new Sequence('tuple', [...left.take(), ...right.take()]);
    }
  }
  if (operator === '*') {
    const repeated = repeat(left, right, maxLength) ?? repeat(right, left, maxLength);
    if (repeated !== undefined) return repeated;
  }
  throw badRequest(
    `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`,
  );
}

/** `text` itself while it is within the limit of what one rendering may build. */
export function bounded(text: string, maxLength: number): string {
  if (text.length > maxLength) {
    throw badRequest(`the template built a text of more than ${maxLength} characters`);
  }
  return text;
}

function repeat(value: Value, times: Value, maxLength: number): Value {
  if (typeof times !== 'bigint' && typeof times !== 'boolean') return undefined;
  const count = Math.max(0, Number(times));
  if (typeof value === 'string') {
    if (value.length * count > maxLength) return bounded(' '.repeat(maxLength + 1), maxLength);
    return value.repeat(count);
  }
  if (!Array.isArray(value)) return undefined;
  if (value.length * count > maxLength) {
    throw badRequest(`the template built a list of more than ${maxLength} items`);
  }
  return Array.from({ length: value.length * count }, (_, at) => value[at % value.length]);
}

function asNumeric(value: bigint | number | boolean): bigint | number {
  return typeof value === 'boolean' ? BigInt(value) : value;
}

function numeric(
  operator: ArithmeticOperator,
  left: bigint | number,
  right: bigint | number,
): bigint | number {
  if (operator === '/') return divide(Number(left), Number(right));
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    return integer(operator, left, right);
  }
  return float(operator, Number(left), Number(right));
}

/** No template needs more; it keeps `2 ** 10 ** 9` from filling the memory. */
const MAX_EXPONENT = 1024n;

function integer(
  operator: Exclude<ArithmeticOperator, '/'>,
  left: bigint,
  right: bigint,
): bigint | number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '**':
      if (right > MAX_EXPONENT) throw badRequest(`exponent ${right.toString()} is too large`);
      return right < 0n ? Number(left) ** Number(right) : left ** right;
    case '//':
    case '%': {
      if (right === 0n) throw badRequest('integer modulo by zero');
      const remainder = ((left % right) + right) % right;
      return operator === '%' ? remainder : (left - remainder) / right;
    }
  }
}

function float(operator: Exclude<ArithmeticOperator, '/'>, left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '**':
      return left ** right;
    case '//': {
      // Python divides what is left after the remainder: 1.0 // 0.1 is 9.
      const remainder = floatRemainder(left, right);
      const quotient = (left - remainder) / right;
      const floor = Math.floor(quotient);
      return quotient - floor > 0.5 ? floor + 1 : floor;
    }
    case '%':
      return floatRemainder(left, right);
  }
}

function floatRemainder(left: number, right: number): number {
  if (right === 0) throw badRequest('float modulo by zero');
  const remainder = left % right;
  return remainder !== 0 && remainder < 0 !== right < 0 ? remainder + right : remainder;
}

function divide(left: number, right: number): number {
  if (right === 0) throw badRequest('division by zero');
  return left / right;
}

/** Python's index of a sequence: negative counts from the end; undefined when out of range. */
export function sequenceIndex(index: bigint | boolean, length: number): number | undefined {
  const at = Number(index) < 0 ? Number(index) + length : Number(index);
  return at >= 0 && at < length ? at : undefined;
}

/** The indices that `[start:stop:step]` picks from a sequence of this length. */
export function sliceIndices(length: number, start: Value, stop: Value, step: Value): number[] {
  const stride = sliceBound(step) ?? 1;
  if (stride === 0) throw badRequest('slice step cannot be zero');
  const clamp = (bound: number): number => {
    const at = bound < 0 ? bound + length : bound;
    return stride > 0 ? Math.min(Math.max(at, 0), length) : Math.min(Math.max(at, -1), length - 1);
  };
  const first = sliceBound(start);
  const last = sliceBound(stop);
  let at = first === undefined ? (stride > 0 ? 0 : length - 1) : clamp(first);
  const end = last === undefined ? (stride > 0 ? length : -1) : clamp(last);
  const indices: number[] = [];
  for (; stride > 0 ? at < end : at > end; at += stride) {
    indices.push(at);
  }
  return indices;
}

function sliceBound(value: Value): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'bigint' && typeof value !== 'boolean') {
    throw badRequest('slice indices must be integers or None');
  }
  return Number(value);
}
