import { type JsonValue } from '../json/json-value.ts';

/** A dict: JSON objects have string keys, literals of a template may have others. */
export type Dict = Map<Value, Value>;

/**
 * A value inside a template, with Python's types: `bigint` is int, `number` is float, an array is a list,
 * `undefined` is Jinja's Undefined.
 */
export type Value =
  | undefined
  | null
  | boolean
  | bigint
  | number
  | string
  | Value[]
  | Dict
  | Sequence
  | HostObject
  | Callable;

/** Arguments of a call inside a template. */
export interface CallArguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

/** The iterables of Python that are no lists; a generator can be read only once. */
export class Sequence {
  readonly kind: 'tuple' | 'range' | 'view' | 'generator';
  private items: readonly Value[];

  constructor(kind: Sequence['kind'], items: readonly Value[]) {
    this.kind = kind;
    this.items = items;
  }

  /** The items; of a generator what has not been read yet, which this call uses up. */
  take(): readonly Value[] {
    const { items } = this;
    if (this.kind === 'generator') {
      this.items = [];
    }
    return items;
  }
}

/** A function, macro or bound method that a template can call. */
export class Callable {
  readonly name: string;
  readonly call: (args: CallArguments) => Value;

  constructor(name: string, call: (args: CallArguments) => Value) {
    this.name = name;
    this.call = call;
  }
}

/** An object with attributes of its own: `loop`, `namespace(...)`, a macro's `caller`. */
export abstract class HostObject {
  abstract readonly typeName: string;
  /** The attribute, or undefined when there is none. */
  abstract attribute(name: string): Value;
}

/** What `namespace(...)` makes: the only object whose attributes a template may set. */
export class Namespace extends HostObject {
  override readonly typeName = 'Namespace';
  readonly attributes: Map<string, Value>;

  constructor(attributes: Iterable<readonly [string, Value]>) {
    super();
    this.attributes = new Map(attributes);
  }

  override attribute(name: string): Value {
    return this.attributes.get(name);
  }
}

/** JSON values are template values: only the key type of their objects is narrower. */
export function fromJson(value: JsonValue): Value {
  return value;
}

/** True for a dict. */
export function isDict(value: Value): value is Dict {
  return value instanceof Map;
}

/** True for int, float and bool, which Python counts as a number. */
export function isNumber(value: Value): value is bigint | number | boolean {
  return typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean';
}

/** Name of the Python type, for error messages. */
export function typeName(value: Value): string {
  if (value === undefined) return 'Undefined';
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'number') return 'float';
  if (typeof value === 'string') return 'str';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof Sequence) return value.kind;
  if (value instanceof Callable) return 'function';
  return value.typeName;
}
