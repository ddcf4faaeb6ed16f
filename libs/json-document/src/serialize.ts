import { type JsonInput, JsonRaw } from './json-raw.ts';
import { JsonSpan } from './json-span.ts';

/** Writes a value as JSON; raw parts and spans keep their bytes, members that are undefined are left out. */
export function jsonRaw(value: JsonInput): JsonRaw {
  if (value instanceof JsonRaw) return value;
  if (value instanceof JsonSpan) return new JsonRaw([value.bytes]);
  if (typeof value !== 'object' || value === null) {
    return frequent.get(value) ?? plain(JSON.stringify(value));
  }
  const writer = new Writer();
  writer.write(value);
  return writer.end();
}

const plain = (text: string): JsonRaw => new JsonRaw([Buffer.from(text)]);

/** Edits of legs are these for the most part. */
const frequent = new Map<JsonInput, JsonRaw>(
  [true, false, null, 1].map((value) => [value, plain(JSON.stringify(value))]),
);

/** Joins text as long as it can and makes a chunk where raw bytes come. */
class Writer {
  readonly #chunks: Uint8Array[] = [];
  #text = '';

  write(value: JsonInput): void {
    if (value instanceof JsonRaw) this.#raw(value.chunks);
    else if (value instanceof JsonSpan) this.#raw([value.bytes]);
    else if (typeof value !== 'object' || value === null) this.#text += JSON.stringify(value);
    else if (isArray(value)) this.#list('[', value.entries(), ']');
    else this.#list('{', Object.entries(value), '}');
  }

  end(): JsonRaw {
    this.#flush();
    return new JsonRaw(this.#chunks);
  }

  #list(
    open: string,
    entries: Iterable<[string | number, JsonInput | undefined]>,
    close: string,
  ): void {
    let separator = open;
    for (const [key, value] of entries) {
      if (value === undefined) continue;
      this.#text += typeof key === 'string' ? `${separator}${JSON.stringify(key)}:` : separator;
      separator = ',';
      this.write(value);
    }
    this.#text += separator === open ? open + close : close;
  }

  #raw(chunks: readonly Uint8Array[]): void {
    this.#flush();
    this.#chunks.push(...chunks);
  }

  #flush(): void {
    if (this.#text === '') return;
    this.#chunks.push(Buffer.from(this.#text));
    this.#text = '';
  }
}

// Array.isArray does not narrow readonly arrays.
const isArray = (value: object): value is readonly JsonInput[] => Array.isArray(value);
