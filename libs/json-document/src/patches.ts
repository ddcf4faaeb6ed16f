import { type JsonInput, type JsonRaw } from './json-raw.ts';
import { type JsonSpan } from './json-span.ts';
import { jsonRaw } from './serialize.ts';

/** Other bytes for `source[start, end)`; an insertion when both are equal. */
export interface SpanPatch {
  readonly source: Uint8Array;
  readonly start: number;
  readonly end: number;
  readonly chunks: readonly Uint8Array[];
}

/** Puts another value where `span` lies. */
export function replaceValue(span: JsonSpan, value: JsonInput): SpanPatch {
  const { source, start, end } = span;
  return { source, start, end, chunks: jsonRaw(value).chunks };
}

/** Sets a member of an object: replaces the value where the name exists, else adds the member at the end. */
export function setMember(object: JsonSpan, name: string, value: JsonInput): SpanPatch {
  const existing = object.get(name);
  if (existing) return replaceValue(existing, value);
  const at = object.end - 1;
  const start = Buffer.from(`${object.isEmpty() ? '' : ','}${JSON.stringify(name)}:`);
  return {
    source: object.source,
    start: at,
    end: at,
    chunks: [start, ...jsonRaw(value).chunks],
  };
}

/** Patches by the text that they belong to, each list in order of position. */
export type PatchSet = ReadonlyMap<Uint8Array, readonly SpanPatch[]>;

export const noPatches: PatchSet = new Map();

/**
 * Adds patches to a set. A patch for the same place replaces the older one.
 *
 * @throws Error when two patches overlap otherwise.
 */
export function addPatches(set: PatchSet, added: Iterable<SpanPatch>): PatchSet {
  const result = new Map(set);
  const bySource = Map.groupBy(added, ({ source }) => source);
  for (const [source, patches] of bySource) {
    const all = [...(set.get(source) ?? []), ...patches];
    const byPlace = new Map(all.map((patch) => [`${patch.start}-${patch.end}`, patch]));
    const list = [...byPlace.values()].sort((a, b) => a.start - b.start || a.end - b.end);
    list.forEach(({ start }, i) => {
      if (start < (list[i - 1]?.end ?? 0)) throw new Error('patches of a JSON document overlap');
    });
    result.set(source, list);
  }
  return result;
}

/** The bytes `source[start, end)` with the patches that lie inside applied, appended to `out`; an insertion at `end` is outside. */
export function slicePatched(
  set: PatchSet,
  source: Uint8Array,
  start: number,
  end: number,
  out: Uint8Array[],
): void {
  let at = start;
  for (const patch of set.get(source) ?? []) {
    if (patch.start < start || patch.start === end || patch.end > end) continue;
    if (patch.start > at) out.push(source.subarray(at, patch.start));
    for (const chunk of patch.chunks) out.push(chunk);
    at = patch.end;
  }
  if (at < end) out.push(source.subarray(at, end));
}

/** Members to write over or add; undefined removes. */
export type ObjectEdits = ReadonlyMap<string, JsonSpan | JsonRaw | undefined>;
