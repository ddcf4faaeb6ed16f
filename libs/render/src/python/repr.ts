import { notImplemented } from '../errors.ts';
import { floatRepr } from './float-repr.ts';
import { Sequence, typeName, type Value } from './value.ts';

/** Categories that `str.isprintable` refuses; the plain blank is printable. */
const UNPRINTABLE = /[\p{C}\p{Z}]/u;

/** `str(value)`: what `{{ value }}` prints. Undefined prints nothing. */
export function toText(value: Value): string {
  if (typeof value === 'string') return value;
  if (value === undefined) return '';
  return repr(value);
}

/** `repr(value)`: how a value looks inside a printed list or dict. */
export function repr(value: Value): string {
  if (value === null) return 'None';
  if (value === undefined) return 'Undefined';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return floatRepr(value);
  if (typeof value === 'string') return stringRepr(value);
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  if (value instanceof Map) {
    return `{${[...value].map(([key, item]) => `${repr(key)}: ${repr(item)}`).join(', ')}}`;
  }
  if (value instanceof Sequence && value.kind === 'tuple') {
    const items = value.take().map(repr);
    return items.length === 1 ? `(${items.join('')},)` : `(${items.join(', ')})`;
  }
  throw notImplemented(`printing a ${typeName(value)}`);
}

function stringRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let body = '';
  for (const character of text) {
    body += character === quote ? `\\${quote}` : escapeCharacter(character);
  }
  return quote + body + quote;
}

function escapeCharacter(character: string): string {
  switch (character) {
    case '\\':
      return '\\\\';
    case '\n':
      return '\\n';
    case '\r':
      return '\\r';
    case '\t':
      return '\\t';
    case ' ':
      return ' ';
    default:
      return UNPRINTABLE.test(character) ? escapeCode(character) : character;
  }
}

function escapeCode(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, '0')}`;
  if (code < 0x10000) return `\\u${hex.padStart(4, '0')}`;
  return `\\U${hex.padStart(8, '0')}`;
}
