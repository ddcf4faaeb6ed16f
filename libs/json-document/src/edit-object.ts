import { type JsonInput, JsonRaw } from './json-raw.ts';
import { type JsonMember, JsonSpan } from './json-span.ts';
import { noPatches, type ObjectEdits, type PatchSet, slicePatched } from './patches.ts';
import { jsonRaw } from './serialize.ts';

/** Turns edits as callers write them into the form that is kept: spans stay spans, everything else is serialised. */
export function toEdits(
  edits: Readonly<Record<string, JsonInput | undefined>>,
  base?: ObjectEdits,
): Map<string, JsonSpan | JsonRaw | undefined> {
  const result = new Map(base);
  for (const [name, value] of Object.entries(edits)) {
    result.set(name, value === undefined || value instanceof JsonSpan ? value : jsonRaw(value));
  }
  return result;
}

/** Writes an object with some members replaced, removed or added; every other byte stays as it is. */
export function editObject(
  object: JsonSpan,
  edits: Readonly<Record<string, JsonInput | undefined>>,
): JsonRaw {
  const out: Uint8Array[] = [];
  writeEdited(object, object.members(), toEdits(edits), noPatches, out);
  return new JsonRaw(out);
}

const comma = Buffer.from(',');

/** Appends the pieces of an edited object to `out`. Of duplicate names that are edited only the last is kept. */
export function writeEdited(
  object: JsonSpan,
  members: readonly JsonMember[],
  edits: ObjectEdits,
  patches: PatchSet,
  out: Uint8Array[],
): void {
  /** Bytes that stay and are not in `out` yet: what lies together is written as one piece. */
  let [start, end] = [object.start, object.start + 1];
  const flush = (): void => {
    slicePatched(patches, object.source, start, end, out);
    start = end;
  };
  let [hasMembers, isGap] = [false, false];
  for (let index = 0; index < members.length; index++) {
    const member = members[index];
    if (!member) continue;
    const { start: nameStart, name, value } = member;
    const edit = edits.get(name);
    const isDropped = edit === undefined ? edits.has(name) : standsAgain(members, name, index);
    if (isDropped) {
      // The comma goes with it, and the blanks up to the next member.
      isGap = true;
      continue;
    }
    if (isGap) {
      flush();
      if (hasMembers) out.push(comma);
      start = nameStart;
      isGap = false;
    }
    hasMembers = true;
    if (edit !== undefined) {
      end = value.start;
      flush();
      writeValue(edit, patches, out);
      start = value.end;
    }
    end = value.end;
  }
  for (const [name, edit] of edits) {
    if (edit === undefined || standsAgain(members, name, -1)) continue;
    flush();
    out.push(Buffer.from(`${hasMembers ? ',' : ''}${JSON.stringify(name)}:`));
    writeValue(edit, patches, out);
    hasMembers = true;
  }
  if (isGap) {
    flush();
    start = object.end - 1;
  }
  end = object.end;
  flush();
}

/** Whether there is a member of this name behind an index. */
function standsAgain(members: readonly JsonMember[], name: string, index: number): boolean {
  for (let i = index + 1; i < members.length; i++) if (members[i]?.name === name) return true;
  return false;
}

function writeValue(value: JsonSpan | JsonRaw, patches: PatchSet, out: Uint8Array[]): void {
  if (value instanceof JsonSpan) slicePatched(patches, value.source, value.start, value.end, out);
  else for (const chunk of value.chunks) out.push(chunk);
}
