import { type JsonSpan } from '@llm-d/json-document';

/** Whether two values are equal whatever the order of their members and the blanks; numbers by their digits. */
export function isSameJson(a: JsonSpan, b: JsonSpan): boolean {
  if (a.kind !== b.kind) return false;
  if (a.kind === 'array') {
    const [left, right] = [[...a.elements()], [...b.elements()]];
    return left.length === right.length && left.every((item, i) => isSameAt(item, right[i]));
  }
  if (a.kind === 'object') {
    const [left, right] = [toMap(a), toMap(b)];
    return (
      left.size === right.size &&
      [...left].every(([name, value]) => isSameAt(value, right.get(name)))
    );
  }
  return a.kind === 'string' ? a.text() === b.text() : Buffer.compare(a.bytes, b.bytes) === 0;
}

const isSameAt = (a: JsonSpan, b: JsonSpan | undefined): boolean => !!b && isSameJson(a, b);

const toMap = (object: JsonSpan): Map<string, JsonSpan> =>
  new Map(object.members().map(({ name, value }) => [name, value]));
