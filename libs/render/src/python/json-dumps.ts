import { badRequest } from '../errors.ts';
import { floatRepr } from './float-repr.ts';
import { compareText } from './text.ts';
import { Sequence, typeName, type Value } from './value.ts';

/** Arguments of `json.dumps` that the filter `tojson` passes on. */
export interface DumpsOptions {
  readonly itemSeparator?: string;
  readonly keySeparator?: string;
  /** One level of indentation; undefined keeps everything on one line. */
  readonly indent?: string;
  readonly sortKeys?: boolean;
  readonly ensureAscii?: boolean;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\f': '\\f',
  '\b': '\\b',
};
const ALWAYS_ESCAPED = /["\\]|(?![\u007f-\u009f])\p{Cc}/gu;
const NOT_ASCII = /[^ -~]/g;

/** `json.dumps(value)` of Python, by default with `", "` and `": "` and without ASCII escapes, as transformers calls it. */
export function jsonDumps(value: Value, options: DumpsOptions = {}): string {
  return new Dumper(options).dump(value, '\n');
}

/** A JSON string literal with Python's escapes. */
function jsonString(text: string, ensureAscii = false): string {
  const escaped = text.replace(ALWAYS_ESCAPED, (c) => ESCAPES[c] ?? unicodeEscape(c));
  return `"${ensureAscii ? escaped.replace(NOT_ASCII, unicodeEscape) : escaped}"`;
}

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

class Dumper {
  private readonly itemSeparator: string;
  private readonly keySeparator: string;
  private readonly indent: string | undefined;
  private readonly sortKeys: boolean;
  private readonly ensureAscii: boolean;

  constructor(options: DumpsOptions) {
    this.indent = options.indent;
    this.itemSeparator = options.itemSeparator ?? (options.indent === undefined ? ', ' : ',');
    this.keySeparator = options.keySeparator ?? ': ';
    this.sortKeys = options.sortKeys === true;
    this.ensureAscii = options.ensureAscii === true;
  }

  /** `newline` is the line break with the indentation of the enclosing level. */
  dump(value: Value, newline: string): string {
    if (value === null) return 'null';
    if (typeof value === 'boolean') return value ? 'true' : 'false';
    if (typeof value === 'bigint') return value.toString();
    if (typeof value === 'number') return jsonFloat(value);
    if (typeof value === 'string') return jsonString(value, this.ensureAscii);
    if (Array.isArray(value)) return this.list(value, newline);
    if (value instanceof Sequence && value.kind === 'tuple')
      return this.list(value.take(), newline);
    if (value instanceof Map) return this.dict(value, newline);
    throw badRequest(`Object of type ${typeName(value)} is not JSON serializable`);
  }

  private list(items: readonly Value[], newline: string): string {
    const inner = newline + (this.indent ?? '');
    return this.wrap(
      '[',
      ']',
      items.map((item) => this.dump(item, inner)),
      newline,
    );
  }

  private dict(dict: ReadonlyMap<Value, Value>, newline: string): string {
    const inner = newline + (this.indent ?? '');
    const entries = [...dict].map(([key, item]): [string, Value] => [keyText(key), item]);
    if (this.sortKeys) {
      entries.sort(([a], [b]) => compareText(a, b));
    }
    const items = entries.map(
      ([key, item]) =>
        jsonString(key, this.ensureAscii) + this.keySeparator + this.dump(item, inner),
    );
    return this.wrap('{', '}', items, newline);
  }

  private wrap(open: string, close: string, items: readonly string[], newline: string): string {
    if (items.length === 0 || this.indent === undefined) {
      return open + items.join(this.itemSeparator) + close;
    }
    const inner = newline + this.indent;
    return open + inner + items.join(this.itemSeparator + inner) + newline + close;
  }
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  return floatRepr(value);
}

function keyText(key: Value): string {
  if (typeof key === 'string') return key;
  if (key === null) return 'null';
  if (typeof key === 'boolean') return key ? 'true' : 'false';
  if (typeof key === 'bigint') return key.toString();
  if (typeof key === 'number') return jsonFloat(key);
  throw badRequest(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}
