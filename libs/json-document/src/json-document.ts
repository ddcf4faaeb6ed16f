import { toEdits, writeEdited } from './edit-object.ts';
import { JsonError } from './json-error.ts';
import { type JsonInput, JsonRaw } from './json-raw.ts';
import { decodeString, type JsonMember, JsonSpan } from './json-span.ts';
import { addPatches, noPatches, type PatchSet, slicePatched, type SpanPatch } from './patches.ts';
import { type JsonLimits, topLevelPositions } from './validate.ts';

/** What a document may be, beyond valid JSON. */
export interface DocumentLimits extends JsonLimits {
  /** Top-level names that may stand only once, because a decision depends on them. Of other duplicates the last counts. */
  uniqueKeys?: ReadonlySet<string>;
}

/**
 * A JSON object as the bytes it came in, with edits beside them. Nothing is parsed into a tree; what is not edited is
 * written exactly as it was read. Immutable: every edit gives a new document that shares the bytes.
 */
export class JsonDocument {
  readonly #root: JsonSpan;
  readonly #members: readonly JsonMember[];
  readonly #edits: Map<string, JsonSpan | JsonRaw | undefined>;
  readonly #patches: PatchSet;
  #written: JsonRaw | undefined;

  private constructor(
    root: JsonSpan,
    members: readonly JsonMember[],
    edits: Map<string, JsonSpan | JsonRaw | undefined>,
    patches: PatchSet,
  ) {
    this.#root = root;
    this.#members = members;
    this.#edits = edits;
    this.#patches = patches;
  }

  /**
   * Checks a text once and finds its top-level members. The bytes are kept, not copied: they must not change.
   *
   * @throws JsonError when the text is not a JSON object within the limits.
   */
  static parse(bytes: Uint8Array, limits: DocumentLimits = {}): JsonDocument {
    const positions = topLevelPositions(bytes, limits);
    const root = rootOf(bytes);
    if (root.kind !== 'object') {
      throw new JsonError('not-an-object', root.start, 'the text is not a JSON object');
    }
    const members = membersAt(bytes, positions);
    if (limits.uniqueKeys) refuseDuplicates(members, limits.uniqueKeys);
    return new JsonDocument(root, members, new Map(), noPatches);
  }

  /** A document of our own making. */
  static of(value: Readonly<Record<string, JsonInput | undefined>>): JsonDocument {
    return JsonDocument.parse(Buffer.from('{}')).with(value);
  }

  /** Names of the top-level members, edits included. */
  keys(): string[] {
    const names = new Set(this.#members.map(({ name }) => name));
    for (const [name, edit] of this.#edits) {
      if (edit === undefined) names.delete(name);
      else names.add(name);
    }
    return [...names];
  }

  /** A top-level value; of duplicates the last one. Deep patches do not show in it. */
  get(name: string): JsonSpan | undefined {
    if (!this.#edits.has(name))
      return this.#members.findLast((member) => member.name === name)?.value;
    const edit = this.#edits.get(name);
    if (!(edit instanceof JsonRaw)) return edit;
    // From here on the value is this span, so that patches on it find their place.
    const span = rootOf(edit.toBytes());
    this.#edits.set(name, span);
    return span;
  }

  /** The text of a top-level string; undefined when it is absent or no string. */
  text(name: string): string | undefined {
    return this.get(name)?.text();
  }

  /** Whether a top-level member is `true`; every other value is false. */
  isTrue(name: string): boolean {
    return this.get(name)?.isTrue() ?? false;
  }

  /** Sets top-level members; undefined removes one. New members are added at the end. */
  with(edits: Readonly<Record<string, JsonInput | undefined>>): JsonDocument {
    return new JsonDocument(this.#root, this.#members, toEdits(edits, this.#edits), this.#patches);
  }

  /**
   * Changes bytes deep inside, at spans that were found by walking this document.
   *
   * @throws Error when a patch belongs to another document, or overlaps one that is there.
   */
  patch(patches: Iterable<SpanPatch>): JsonDocument {
    const sources = new Set([this.#root.source]);
    for (const edit of this.#edits.values()) if (edit instanceof JsonSpan) sources.add(edit.source);
    const added = [...patches];
    for (const { source } of added) {
      if (!sources.has(source)) throw new Error('a patch belongs to another JSON document');
    }
    const merged = addPatches(this.#patches, added);
    return new JsonDocument(this.#root, this.#members, this.#edits, merged);
  }

  /** The bytes of a span with the patches inside it. */
  extract(span: JsonSpan): JsonRaw {
    const out: Uint8Array[] = [];
    slicePatched(this.#patches, span.source, span.start, span.end, out);
    return new JsonRaw(out);
  }

  /** The text as pieces to write one after another. */
  chunks(): readonly Uint8Array[] {
    return this.toRaw().chunks;
  }

  get byteLength(): number {
    return this.toRaw().byteLength;
  }

  /** The whole text, edits included. */
  toRaw(): JsonRaw {
    this.#written ??= new JsonRaw(this.#write());
    return this.#written;
  }

  toString(): string {
    return this.toRaw().toString();
  }

  #write(): Uint8Array[] {
    const out: Uint8Array[] = [];
    const { source, start, end } = this.#root;
    if (this.#edits.size === 0) {
      slicePatched(this.#patches, source, 0, source.length, out);
      return out;
    }
    if (start > 0) out.push(source.subarray(0, start));
    writeEdited(this.#root, this.#members, this.#edits, this.#patches, out);
    if (end < source.length) out.push(source.subarray(end));
    return out;
  }
}

/**
 * Checks a text once and returns its value; the members of an object are known then and cost no second walk.
 *
 * @throws JsonError when the text is not JSON within the limits.
 */
export function parseJson(bytes: Uint8Array, limits: JsonLimits = {}): JsonSpan {
  const positions = topLevelPositions(bytes, limits);
  const root = rootOf(bytes);
  if (root.kind !== 'object') return root;
  return new JsonSpan(bytes, root.start, root.end, membersAt(bytes, positions));
}

/** The single value of a valid text, without the blanks around it. */
export function rootOf(bytes: Uint8Array): JsonSpan {
  let [start, end] = [0, bytes.length];
  while ((bytes[start] ?? 0x21) <= 0x20) start++;
  while (end > start && (bytes[end - 1] ?? 0x21) <= 0x20) end--;
  return new JsonSpan(bytes, start, end);
}

function membersAt(bytes: Uint8Array, positions: readonly number[]): JsonMember[] {
  const members: JsonMember[] = [];
  for (let i = 0; i < positions.length; i += 4) {
    const start = positions[i] ?? 0;
    const value = new JsonSpan(bytes, positions[i + 2] ?? 0, positions[i + 3]);
    members.push({ start, name: decodeString(bytes, start, positions[i + 1] ?? 0), value });
  }
  return members;
}

function refuseDuplicates(members: readonly JsonMember[], unique: ReadonlySet<string>): void {
  const seen = new Set<string>();
  for (const { name, start } of members) {
    if (seen.has(name) && unique.has(name)) {
      throw new JsonError('duplicate-key', start, `the member "${name}" stands twice`);
    }
    seen.add(name);
  }
}
