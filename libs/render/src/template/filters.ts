import { badRequest, notImplemented } from '../errors.ts';
import { dictItems } from '../python/attributes.ts';
import { bindArguments, integerArgument, textArgument } from '../python/call-arguments.ts';
import { jsonDumps } from '../python/json-dumps.ts';
import { arithmetic, isTruthy, iterate, lengthOf } from '../python/operators.ts';
import { toText } from '../python/repr.ts';
import { capitalize, replaceText } from '../python/string-methods.ts';
import { codePoints, splitLines, strip } from '../python/text.ts';
import {
  isDict,
  isNumber,
  Sequence,
  typeName,
  type CallArguments,
  type Value,
} from '../python/value.ts';
import { attributeOf } from './attribute-path.ts';
import { type Run } from './scope.ts';
import { dictsort, extreme, sort, unique } from './sorting-filters.ts';
import { testByName } from './tests.ts';

/** What a filter gets: the piped value, the other arguments, and the limits of the rendering. */
type Filter = (value: Value, args: CallArguments, run: Run) => Value;

/** Jinja's filters that chat templates use; a template that names another one is refused when it is loaded. */
export const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ['abs', (value) => absolute(value)],
  ['capitalize', (value) => capitalize(toText(value))],
  ['count', (value) => lengthOf(value)],
  ['length', (value) => lengthOf(value)],
  ['default', defaultTo],
  ['d', defaultTo],
  ['dictsort', dictsort],
  ['first', (value) => firstItem(value)],
  ['last', (value) => iterate(value).at(-1)],
  ['float', (value) => toFloat(value)],
  ['int', (value) => toInteger(value)],
  ['indent', indent],
  ['items', items],
  ['join', join],
  ['list', (value) => [...iterate(value)]],
  ['lower', (value) => toText(value).toLowerCase()],
  ['upper', (value) => toText(value).toUpperCase()],
  ['title', (value) => title(toText(value))],
  ['map', map],
  ['max', (value) => extreme(value, 1)],
  ['min', (value) => extreme(value, -1)],
  ['reject', (value, args) => select(value, args, false)],
  ['select', (value, args) => select(value, args, true)],
  ['rejectattr', (value, args) => selectByAttribute(value, args, false)],
  ['selectattr', (value, args) => selectByAttribute(value, args, true)],
  ['replace', replace],
  ['reverse', (value) => reverse(value)],
  ['safe', (value) => toText(value)],
  ['sort', sort],
  ['string', (value) => toText(value)],
  ['sum', sum],
  ['tojson', tojson],
  ['trim', trim],
  ['unique', unique],
]);

/** What the lazy filters read: nothing of a value that is false, whatever its type. */
function lazyItems(value: Value): readonly Value[] {
  return isTruthy(value) ? iterate(value) : [];
}

function absolute(value: Value): Value {
  if (typeof value === 'boolean') return BigInt(value);
  if (typeof value === 'bigint') return value < 0n ? -value : value;
  if (typeof value === 'number') return Math.abs(value);
  throw badRequest(`bad operand type for abs(): '${typeName(value)}'`);
}

function defaultTo(value: Value, args: CallArguments): Value {
  const bound = bindArguments('default', args, ['default_value', 'boolean']);
  const isMissing = value === undefined || (isTruthy(bound.get('boolean')) && !isTruthy(value));
  return isMissing ? (bound.has('default_value') ? bound.get('default_value') : '') : value;
}

function firstItem(value: Value): Value {
  return iterate(value)[0];
}

function toFloat(value: Value): Value {
  if (value === undefined) throw badRequest('a number of an undefined value');
  if (isNumber(value)) return Number(value);
  const text = typeof value === 'string' ? strip(value, 'both', undefined) : '';
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? Number(text) : 0;
}

function toInteger(value: Value): Value {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return BigInt(value);
  const number = typeof value === 'number' ? value : Number(toFloat(value));
  if (typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value))
    return BigInt(value.trim().replace('+', ''));
  return Number.isFinite(number) ? BigInt(Math.trunc(number)) : 0n;
}

function indent(value: Value, args: CallArguments): Value {
  const bound = bindArguments('indent', args, ['width', 'first', 'blank']);
  const width = bound.get('width');
  const prefix =
    typeof width === 'string' ? width : ' '.repeat(integerArgument('indent', width, 4));
  const indentsBlank = isTruthy(bound.get('blank'));
  const lines = splitLines(`${textArgument('indent', value)}\n`, false);
  const [head = '', ...rest] = lines;
  const body = rest.map((line) => (line === '' && !indentsBlank ? line : prefix + line));
  return (isTruthy(bound.get('first')) ? prefix : '') + [head, ...body].join('\n');
}

function items(value: Value): Value {
  if (value === undefined) return [];
  if (!isDict(value)) throw badRequest('Can only get item pairs from a mapping.');
  return new Sequence('generator', dictItems(value).take());
}

function join(value: Value, args: CallArguments): Value {
  const bound = bindArguments('join', args, ['d', 'attribute']);
  const attribute = bound.get('attribute');
  const parts = iterate(value).map((item) =>
    toText(attribute === undefined ? item : attributeOf(item, attribute)),
  );
  return parts.join(toText(bound.get('d')));
}

function title(text: string): string {
  return text
    .split(/([-\s({[<]+)/)
    .map((word) => capitalize(word))
    .join('');
}

function map(value: Value, args: CallArguments, run: Run): Value {
  const [name, ...rest] = args.positional;
  const source = lazyItems(value);
  const attribute = args.named.get('attribute');
  if (attribute !== undefined) {
    const fallback = args.named.get('default');
    return new Sequence(
      'generator',
      source.map((item) => attributeOf(item, attribute) ?? fallback),
    );
  }
  const filter = FILTERS.get(toText(name));
  if (filter === undefined) throw notImplemented(`filter ${toText(name)}`);
  const inner: CallArguments = { positional: rest, named: args.named };
  return new Sequence(
    'generator',
    source.map((item) => filter(item, inner, run)),
  );
}

function select(value: Value, args: CallArguments, keeps: boolean): Value {
  const [name, argument] = args.positional;
  const test = name === undefined ? isTruthy : testByName(toText(name));
  return new Sequence(
    'generator',
    lazyItems(value).filter((item) => test(item, argument) === keeps),
  );
}

function selectByAttribute(value: Value, args: CallArguments, keeps: boolean): Value {
  const [attribute, name, argument] = args.positional;
  const test = name === undefined ? isTruthy : testByName(toText(name));
  return new Sequence(
    'generator',
    lazyItems(value).filter((item) => test(attributeOf(item, attribute), argument) === keeps),
  );
}

function replace(value: Value, args: CallArguments): Value {
  const bound = bindArguments('replace', args, ['old', 'new', 'count']);
  return replaceText(
    toText(value),
    toText(bound.get('old')),
    toText(bound.get('new')),
    integerArgument('replace', bound.get('count'), -1),
  );
}

function reverse(value: Value): Value {
  if (typeof value === 'string') return codePoints(value).reverse().join('');
  return new Sequence('generator', [...iterate(value)].reverse());
}

function sum(value: Value, args: CallArguments, run: Run): Value {
  const bound = bindArguments('sum', args, ['attribute', 'start']);
  const attribute = bound.get('attribute');
  const start = bound.has('start') ? bound.get('start') : 0n;
  return iterate(value).reduce(
    (total: Value, item) =>
      arithmetic(
        '+',
        total,
        attribute === undefined || attribute === null ? item : attributeOf(item, attribute),
        run.maxCharacters,
      ),
    start,
  );
}

function tojson(value: Value, args: CallArguments): Value {
  const bound = bindArguments('tojson', args, [
    'ensure_ascii',
    'indent',
    'separators',
    'sort_keys',
  ]);
  const indentation = bound.get('indent');
  const separators = bound.get('separators');
  const isIndented = indentation !== undefined && indentation !== null;
  const [itemSeparator, keySeparator] =
    separators === undefined || separators === null ? [] : iterate(separators);
  return jsonDumps(value, {
    ensureAscii: isTruthy(bound.get('ensure_ascii')),
    sortKeys: isTruthy(bound.get('sort_keys')),
    ...(isIndented && {
      indent:
        typeof indentation === 'string'
          ? indentation
          : ' '.repeat(integerArgument('tojson', indentation, 0)),
    }),
    ...(itemSeparator !== undefined && { itemSeparator: toText(itemSeparator) }),
    ...(keySeparator !== undefined && { keySeparator: toText(keySeparator) }),
  });
}

function trim(value: Value, args: CallArguments): Value {
  const characters = bindArguments('trim', args, ['chars']).get('chars');
  const isDefault = characters === undefined || characters === null;
  return strip(toText(value), 'both', isDefault ? undefined : toText(characters));
}
