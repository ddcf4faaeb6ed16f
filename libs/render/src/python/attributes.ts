import { badRequest, notImplemented } from '../errors.ts';
import { bindArguments } from './call-arguments.ts';
import { areEqual, sequenceIndex, sliceIndices } from './operators.ts';
import { toText } from './repr.ts';
import { STRING_METHODS, UNSUPPORTED_STRING_METHODS } from './string-methods.ts';
import { codePoints } from './text.ts';
import {
  Callable,
  HostObject,
  isDict,
  Sequence,
  typeName,
  type CallArguments,
  type Dict,
  type Value,
} from './value.ts';

/** Methods that change a list or dict: the sandbox of transformers raises when a template touches one. */
const MUTATORS: Readonly<Record<'list' | 'dict', ReadonlySet<string>>> = {
  list: new Set(['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove']),
  dict: new Set(['clear', 'pop', 'popitem', 'setdefault', 'update']),
};
const NUMBER_ATTRIBUTES = new Set(
  (
    'real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes ' +
    'as_integer_ratio is_integer hex fromhex'
  ).split(' '),
);

/** `value.name`: a method of the type first, then the item of that name; Undefined when there is neither. */
export function getAttribute(value: Value, name: string): Value {
  if (value === undefined) throw badRequest(`attribute '${name}' of an undefined value`);
  if (value instanceof HostObject) return value.attribute(name);
  return methodOf(value, name) ?? (isDict(value) ? value.get(name) : undefined);
}

/** `value[key]`: the item first, then the attribute of that name; Undefined when there is neither. */
export function getItem(value: Value, key: Value): Value {
  if (value === undefined) throw badRequest('item of an undefined value');
  if (isDict(value) && value.has(key)) return value.get(key);
  if (typeof key === 'bigint' || typeof key === 'boolean') {
    const items = indexable(value);
    const at = items === undefined ? undefined : sequenceIndex(key, items.length);
    return at === undefined ? undefined : items?.[at];
  }
  if (typeof key !== 'string') return undefined;
  return value instanceof HostObject ? value.attribute(key) : methodOf(value, key);
}

/** `value[start:stop:step]`. */
export function getSlice(value: Value, start: Value, stop: Value, step: Value): Value {
  const items = indexable(value);
  if (items === undefined) throw badRequest(`'${typeName(value)}' object cannot be sliced`);
  const picked = sliceIndices(items.length, start, stop, step).map((at) => items[at]);
  if (typeof value === 'string') return picked.map(toText).join('');
  return value instanceof Sequence ? new Sequence(value.kind, picked) : picked;
}

function indexable(value: Value): readonly Value[] | undefined {
  if (typeof value === 'string') return codePoints(value);
  if (Array.isArray(value)) return value;
  if (value instanceof Sequence && (value.kind === 'tuple' || value.kind === 'range')) {
    return value.take();
  }
  return undefined;
}

function methodOf(value: Value, name: string): Value {
  if (name.startsWith('__')) throw notImplemented(`attribute ${name}`);
  if (typeof value === 'string') return stringMethod(value, name);
  if (isDict(value)) return dictMethod(value, name);
  if (Array.isArray(value)) return listMethod(value, name);
  if (value instanceof Sequence && value.kind === 'tuple') {
    return name === 'index' || name === 'count' ? listMethod(value.take(), name) : undefined;
  }
  if (value !== null && typeof value !== 'object' && NUMBER_ATTRIBUTES.has(name)) {
    throw notImplemented(`attribute ${name} of a number`);
  }
  if (value instanceof Callable) throw notImplemented(`attribute ${name} of a function`);
  return undefined;
}

function stringMethod(text: string, name: string): Value {
  const method = STRING_METHODS.get(name);
  if (method !== undefined) return new Callable(name, (args) => method(text, args));
  if (UNSUPPORTED_STRING_METHODS.has(name)) throw notImplemented(`method str.${name}`);
  return undefined;
}

function dictMethod(dict: Dict, name: string): Value {
  refuseMutator('dict', name);
  switch (name) {
    case 'items':
      return new Callable(name, () => dictItems(dict));
    case 'keys':
      return new Callable(name, () => new Sequence('view', [...dict.keys()]));
    case 'values':
      return new Callable(name, () => new Sequence('view', [...dict.values()]));
    case 'copy':
      return new Callable(name, () => new Map(dict));
    case 'get':
      return new Callable(name, (args) => dictGet(dict, args));
    case 'fromkeys':
      throw notImplemented('method dict.fromkeys');
    default:
      return undefined;
  }
}

/** `dict.items()`: pairs as tuples. */
export function dictItems(dict: Dict): Sequence {
  return new Sequence(
    'view',
    [...dict].map((entry) => new Sequence('tuple', entry)),
  );
}

function dictGet(dict: Dict, args: CallArguments): Value {
  const bound = bindArguments('get', args, ['key', 'default']);
  const key = bound.get('key');
  if (dict.has(key)) return dict.get(key);
  return bound.has('default') ? bound.get('default') : null;
}

function listMethod(items: readonly Value[], name: string): Value {
  refuseMutator('list', name);
  switch (name) {
    case 'index':
      return new Callable(name, (args) => {
        const wanted = bindArguments(name, args, ['value']).get('value');
        const at = items.findIndex((item) => areEqual(item, wanted));
        if (at === -1) throw badRequest('value is not in list');
        return BigInt(at);
      });
    case 'count':
      return new Callable(name, (args) => {
        const wanted = bindArguments(name, args, ['value']).get('value');
        return BigInt(items.filter((item) => areEqual(item, wanted)).length);
      });
    case 'copy':
      return new Callable(name, () => [...items]);
    default:
      return undefined;
  }
}

function refuseMutator(type: 'list' | 'dict', name: string): void {
  if (MUTATORS[type].has(name)) {
    throw badRequest(`access to attribute '${name}' of '${type}' object is unsafe.`);
  }
}
