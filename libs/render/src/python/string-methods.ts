import { badRequest } from '../errors.ts';
import { bindArguments, integerArgument, textArgument } from './call-arguments.ts';
import { iterate, sliceIndices } from './operators.ts';
import { codePoints, hasPlainOffsets, splitBlank, splitLines, strip, textLength } from './text.ts';
import { Sequence, typeName, type CallArguments, type Value } from './value.ts';

type Method = (text: string, args: CallArguments) => Value;

/** The methods of `str` that templates use; what Python has beyond them is {@link UNSUPPORTED_STRING_METHODS}. */
export const STRING_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['strip', (text, args) => strip(text, 'both', stripCharacters('strip', args))],
  ['lstrip', (text, args) => strip(text, 'left', stripCharacters('lstrip', args))],
  ['rstrip', (text, args) => strip(text, 'right', stripCharacters('rstrip', args))],
  ['split', split],
  ['rsplit', rsplit],
  ['splitlines', splitlines],
  ['partition', (text, args) => partition(text, textAt('partition', args), 'first')],
  ['rpartition', (text, args) => partition(text, textAt('rpartition', args), 'last')],
  ['startswith', (text, args) => hasAffix(text, args, 'startswith')],
  ['endswith', (text, args) => hasAffix(text, args, 'endswith')],
  ['removeprefix', (text, args) => removeAffix(text, textAt('removeprefix', args), true)],
  ['removesuffix', (text, args) => removeAffix(text, textAt('removesuffix', args), false)],
  ['replace', replace],
  ['find', (text, args) => find(text, args, 'find')],
  ['rfind', (text, args) => find(text, args, 'rfind')],
  ['index', (text, args) => found(find(text, args, 'find'))],
  ['rindex', (text, args) => found(find(text, args, 'rfind'))],
  ['count', (text, args) => count(text, textAt('count', args))],
  ['join', join],
  ['upper', (text) => text.toUpperCase()],
  ['lower', (text) => text.toLowerCase()],
  ['title', (text) => titleCase(text)],
  ['capitalize', (text) => capitalize(text)],
  ['isdigit', (text) => /^\p{Nd}+$/u.test(text)],
  ['isalpha', (text) => /^\p{L}+$/u.test(text)],
  ['isalnum', (text) => /^[\p{L}\p{N}]+$/u.test(text)],
  ['isspace', (text) => text !== '' && strip(text, 'both', undefined) === ''],
  ['isupper', (text) => text !== text.toLowerCase() && text === text.toUpperCase()],
  ['islower', (text) => text !== text.toUpperCase() && text === text.toLowerCase()],
]);

/** Methods of `str` that exist in Python and are not built here: a template that names one is refused. */
export const UNSUPPORTED_STRING_METHODS: ReadonlySet<string> = new Set(
  (
    'casefold center encode expandtabs format format_map isascii isdecimal isidentifier isnumeric ' +
    'isprintable istitle ljust maketrans rjust swapcase translate zfill'
  ).split(' '),
);

/** `str.capitalize`: the first character upper, the rest lower. */
export function capitalize(text: string): string {
  const [first = '', ...rest] = codePoints(text);
  return first.toUpperCase() + rest.join('').toLowerCase();
}

/** `str.replace`; without a limit every occurrence. */
export function replaceText(text: string, from: string, to: string, limit: number): string {
  if (from === '') {
    const units = codePoints(text);
    const gaps = limit < 0 ? units.length + 1 : Math.min(limit, units.length + 1);
    return (
      units.map((unit, at) => (at < gaps ? to + unit : unit)).join('') +
      (gaps > units.length ? to : '')
    );
  }
  const parts = text.split(from);
  if (limit < 0 || parts.length - 1 <= limit) return parts.join(to);
  return [parts.slice(0, limit + 1).join(to), ...parts.slice(limit + 1)].join(from);
}

function titleCase(text: string): string {
  return text.replace(/\p{L}+/gu, capitalize);
}

function stripCharacters(name: string, args: CallArguments): string | undefined {
  const characters = bindArguments(name, args, ['chars']).get('chars');
  return characters === undefined || characters === null
    ? undefined
    : textArgument(name, characters);
}

function textAt(name: string, args: CallArguments): string {
  return textArgument(name, bindArguments(name, args, ['text']).get('text'));
}

function splitArguments(name: string, args: CallArguments): [string | undefined, number] {
  const bound = bindArguments(name, args, ['sep', 'maxsplit']);
  const separator = bound.get('sep');
  const limit = integerArgument(name, bound.get('maxsplit'), -1);
  if (separator === undefined || separator === null) return [undefined, limit];
  const text = textArgument(name, separator);
  if (text === '') throw badRequest('empty separator');
  return [text, limit];
}

function split(text: string, args: CallArguments): Value {
  const [separator, limit] = splitArguments('split', args);
  if (separator === undefined) return splitBlank(text, limit);
  const parts = text.split(separator);
  if (limit < 0 || parts.length - 1 <= limit) return parts;
  return [...parts.slice(0, limit), parts.slice(limit).join(separator)];
}

function rsplit(text: string, args: CallArguments): Value {
  const [separator, limit] = splitArguments('rsplit', args);
  if (separator === undefined) {
    if (limit < 0) return splitBlank(text, -1);
    throw badRequest('rsplit() needs a separator when maxsplit is given');
  }
  const parts = text.split(separator);
  if (limit < 0 || parts.length - 1 <= limit) return parts;
  const head = parts.length - limit;
  return [parts.slice(0, head).join(separator), ...parts.slice(head)];
}

function splitlines(text: string, args: CallArguments): Value {
  const keep = bindArguments('splitlines', args, ['keepends']).get('keepends');
  return splitLines(text, keep === true);
}

function partition(text: string, separator: string, which: 'first' | 'last'): Value {
  if (separator === '') throw badRequest('empty separator');
  const at = which === 'first' ? text.indexOf(separator) : text.lastIndexOf(separator);
  if (at === -1) return new Sequence('tuple', which === 'first' ? [text, '', ''] : ['', '', text]);
  return new Sequence('tuple', [text.slice(0, at), separator, text.slice(at + separator.length)]);
}

function hasAffix(text: string, args: CallArguments, name: 'startswith' | 'endswith'): boolean {
  const affix = bindArguments(name, args, ['text']).get('text');
  const candidates = affix instanceof Sequence && affix.kind === 'tuple' ? affix.take() : [affix];
  return candidates.some((candidate) => {
    const wanted = textArgument(name, candidate);
    return name === 'startswith' ? text.startsWith(wanted) : text.endsWith(wanted);
  });
}

function removeAffix(text: string, affix: string, isPrefix: boolean): string {
  if (affix === '') return text;
  if (isPrefix) return text.startsWith(affix) ? text.slice(affix.length) : text;
  return text.endsWith(affix) ? text.slice(0, -affix.length) : text;
}

function replace(text: string, args: CallArguments): Value {
  const bound = bindArguments('replace', args, ['old', 'new', 'count']);
  return replaceText(
    text,
    textArgument('replace', bound.get('old')),
    textArgument('replace', bound.get('new')),
    integerArgument('replace', bound.get('count'), -1),
  );
}

function find(text: string, args: CallArguments, name: 'find' | 'rfind'): bigint {
  const bound = bindArguments(name, args, ['text', 'start', 'end']);
  const wanted = textArgument(name, bound.get('text'));
  const units = codePoints(text);
  const window = sliceIndices(units.length, bound.get('start'), bound.get('end'), undefined);
  const start = window[0] ?? 0;
  const searched = units.slice(start, start + window.length).join('');
  const at = name === 'find' ? searched.indexOf(wanted) : searched.lastIndexOf(wanted);
  if (at === -1) return -1n;
  return BigInt(start + (hasPlainOffsets(searched) ? at : textLength(searched.slice(0, at))));
}

function found(at: bigint): bigint {
  if (at === -1n) throw badRequest('substring not found');
  return at;
}

function count(text: string, wanted: string): bigint {
  return BigInt(wanted === '' ? textLength(text) + 1 : text.split(wanted).length - 1);
}

function join(separator: string, args: CallArguments): Value {
  const items = iterate(bindArguments('join', args, ['iterable']).get('iterable'));
  return items
    .map((item, at) => {
      if (typeof item === 'string') return item;
      throw badRequest(`sequence item ${at}: expected str instance, ${typeName(item)} found`);
    })
    .join(separator);
}
