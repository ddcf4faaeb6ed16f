import { badRequest } from '../errors.ts';
import { bindArguments, integerArgument } from '../python/call-arguments.ts';
import { toText } from '../python/repr.ts';
import { iterate } from '../python/operators.ts';
import {
  Callable,
  isDict,
  Namespace,
  Sequence,
  type CallArguments,
  type Value,
} from '../python/value.ts';
import { strftime } from './strftime.ts';

/** The sandbox's own limit for `range`. */
const MAX_RANGE = 100_000;

/** Names every template knows; a request cannot shadow them. */
export const GLOBALS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['range', new Callable('range', range)],
  ['dict', new Callable('dict', dict)],
  ['namespace', new Callable('namespace', namespace)],
  ['raise_exception', new Callable('raise_exception', raiseException)],
  ['strftime_now', new Callable('strftime_now', strftimeNow)],
]);

/** Globals of Jinja that are not built here: a template that uses one is refused. */
export const UNSUPPORTED_GLOBALS: ReadonlySet<string> = new Set(['lipsum', 'cycler', 'joiner']);

/** Words of the language that are values. */
export const CONSTANTS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

function range(args: CallArguments): Value {
  const bounds = args.positional.map((value) => integerArgument('range', value, 0));
  const [first = 0, second, step = 1] = bounds;
  if (args.named.size > 0 || bounds.length < 1 || bounds.length > 3 || step === 0) {
    throw badRequest('range() takes one to three integers and a step other than 0');
  }
  const start = second === undefined ? 0 : first;
  const stop = second ?? first;
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_RANGE) throw badRequest(`range too big, the maximum is ${MAX_RANGE}`);
  return new Sequence(
    'range',
    Array.from({ length }, (_, at) => BigInt(start + at * step)),
  );
}

function dict(args: CallArguments): Value {
  const entries: [Value, Value][] = [];
  for (const source of args.positional) {
    if (!isDict(source)) throw badRequest('dict() takes a mapping and keyword arguments');
    entries.push(...source);
  }
  return new Map<Value, Value>([...entries, ...args.named]);
}

function namespace(args: CallArguments): Value {
  const attributes = new Map<string, Value>();
  for (const source of args.positional) {
    for (const key of iterate(source)) {
      if (isDict(source)) attributes.set(toText(key), source.get(key));
    }
  }
  for (const [key, value] of args.named) attributes.set(key, value);
  return new Namespace(attributes);
}

function raiseException(args: CallArguments): never {
  throw badRequest(toText(bindArguments('raise_exception', args, ['message']).get('message')));
}

function strftimeNow(args: CallArguments): string {
  const format = bindArguments('strftime_now', args, ['format']).get('format');
  return strftime(new Date(), toText(format));
}
