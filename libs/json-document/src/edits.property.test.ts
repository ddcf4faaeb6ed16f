import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { editObject } from './edit-object.ts';
import { JsonDocument, rootOf } from './json-document.ts';
import { type JsonInput, jsonRaw } from './index.ts';
import { type JsonSpan } from './json-span.ts';
import { replaceValue, setMember, type SpanPatch } from './patches.ts';
import { Choices, decisions, objectText } from './testing.ts';

type Tree = Record<string, unknown>;
type Edits = Record<string, JsonInput | undefined>;

const newNames = ['new', 'uuid', 'a', 'model', '', '__proto__', 'né"w'] as const;

/** Edits of some members that are there and some that are not; the values come in every form an edit may have. */
function randomEdits(random: Choices, object: JsonSpan): Edits {
  const names = [...object.members()].map(({ name }) => name);
  const edits = new Map<string, JsonInput | undefined>();
  for (let count = random.below(4); count > 0; count--) {
    const isThere = names.length > 0 && random.chance(5);
    const name = isThere ? (names[random.below(names.length)] ?? '') : random.of(newNames);
    edits.set(name, randomValue(random, object));
  }
  return Object.fromEntries(edits);
}

function randomValue(random: Choices, object: JsonSpan): JsonInput | undefined {
  switch (random.below(7)) {
    case 0:
    case 1:
      return undefined;
    case 2:
      return random.of([1, -0.5, 'text "é"', true, null, '']);
    case 3:
      return jsonRaw({ raw: [1, object] });
    case 4:
      return [...object.members()].at(-1)?.value ?? null;
    case 5:
      return { n: 1, list: ['a', jsonRaw('b'), {}, []], left_out: undefined };
    default:
      return object;
  }
}

const treeOf = (value: JsonInput): unknown => JSON.parse(jsonRaw(value).toString());

/** The same edits on a parsed tree. */
function edited(tree: Tree, edits: Edits): Tree {
  const members = new Map(Object.entries(tree));
  for (const [name, value] of Object.entries(edits)) {
    if (value === undefined) members.delete(name);
    else members.set(name, treeOf(value));
  }
  return Object.fromEntries(members);
}

function expectTree(text: string, expected: unknown): void {
  const actual: unknown = JSON.parse(text);
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
}

/** The members that are not edited, as they stand: name, colon, value and the blanks between. */
const untouched = (object: JsonSpan, edits: Edits): string[] =>
  [...object.members()]
    .filter(({ name }) => !Object.hasOwn(edits, name))
    .map(({ start, value }) => Buffer.from(object.source.subarray(start, value.end)).toString());

/** Patches at values that do not lie inside one another, and the tree that they should give. */
class DeepEdits {
  readonly patches: SpanPatch[] = [];
  readonly #random: Choices;

  constructor(random: Choices) {
    this.#random = random;
  }

  /** What the value is after the edits chosen in it. */
  walk(span: JsonSpan, depth = 0): unknown {
    if (depth > 0 && this.#random.chance(2)) return this.#replace(span);
    if (span.kind === 'array')
      return [...span.elements()].map((item) => this.walk(item, depth + 1));
    if (span.kind !== 'object') return span.parse();
    if (depth > 0 && this.#random.chance(3)) return this.#set(span);
    // Of duplicates only the last one counts, and `get` finds that one.
    const names = new Set([...span.members()].map(({ name }) => name));
    return Object.fromEntries(
      [...names].map((name) => {
        const value = span.get(name);
        return [name, value && this.walk(value, depth + 1)];
      }),
    );
  }

  #replace(span: JsonSpan): unknown {
    const value = this.#random.of<JsonInput>([0, 'replaced', { a: [] }, jsonRaw([1])]);
    this.patches.push(replaceValue(span, value));
    return treeOf(value);
  }

  #set(span: JsonSpan): unknown {
    const name = this.#random.of(newNames);
    this.patches.push(setMember(span, name, 'set'));
    return edited(span.parse() as Tree, Object.fromEntries([[name, 'set']]));
  }
}

describe('edits of a JSON document', () => {
  it('give the tree that the same edits on a parsed tree give, and keep the bytes of the rest', () => {
    fc.assert(
      fc.property(decisions(70), (list) => {
        const random = new Choices(list);
        const text = objectText(random);
        const bytes = Buffer.from(text);
        const root = rootOf(bytes);
        const document = JsonDocument.parse(bytes);
        const edits = randomEdits(random, root);
        const result = document.with(edits);

        expectTree(result.toString(), edited(JSON.parse(text) as Tree, edits));
        const written = rootOf(result.toRaw().toBytes());
        expect(untouched(written, edits)).toEqual(untouched(root, edits));
        expect(result.byteLength).toBe(written.source.length);
        expect(Buffer.from(editObject(root, edits).toBytes()).toString()).toBe(
          result.toString().trim(),
        );
        expect(result.keys().toSorted()).toEqual(
          Object.keys(JSON.parse(result.toString()) as Tree).toSorted(),
        );
        expect(document.toString()).toBe(text);
      }),
      { numRuns: 10_000 },
    );
  });

  it('may follow one another', () => {
    fc.assert(
      fc.property(decisions(70), (list) => {
        const random = new Choices(list);
        const text = objectText(random);
        let document = JsonDocument.parse(Buffer.from(text));
        let tree = JSON.parse(text) as Tree;
        for (let count = 1 + random.below(4); count > 0; count--) {
          const edits = randomEdits(random, rootOf(document.toRaw().toBytes()));
          document = document.with(edits);
          tree = edited(tree, edits);
        }
        expectTree(document.toString(), tree);
        const again = JsonDocument.parse(document.toRaw().toBytes());
        expect(again.toString()).toBe(document.toString());
      }),
      { numRuns: 5000 },
    );
  });

  it('reach values deep inside, beside edits of top-level members', () => {
    fc.assert(
      fc.property(decisions(100), (list) => {
        const random = new Choices(list);
        const bytes = Buffer.from(objectText(random));
        const root = rootOf(bytes);
        const deep = new DeepEdits(random);
        const tree = deep.walk(root) as Tree;
        const patched = JsonDocument.parse(bytes).patch(deep.patches);
        expectTree(patched.toString(), tree);
        expect(patched.byteLength).toBe(patched.toRaw().toBytes().length);

        const edits = { new: 1, a: undefined, model: 'x' };
        expectTree(patched.with(edits).toString(), edited(tree, edits));
        for (const name of Object.keys(tree)) {
          const value = root.get(name);
          if (value) expectTree(patched.extract(value).toString(), tree[name]);
        }
      }),
      { numRuns: 5000 },
    );
  });
});
