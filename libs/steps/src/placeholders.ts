import { type JsonSpan } from '@llm-d/json-document';
import { type Placeholder } from '@llm-d/pipeline';

/** Reads `{offset, length}`, both non-negative integers; undefined for anything else. */
export function readPlaceholder(value: JsonSpan | undefined): Placeholder | undefined {
  const offset = value?.get('offset')?.number();
  const length = value?.get('length')?.number();
  return isCount(offset) && isCount(length) ? { offset, length } : undefined;
}

/** Whether the run lies inside a prompt of so many tokens; also keeps huge lengths from being acted upon. */
export function isInside({ offset, length }: Placeholder, tokenCount: number): boolean {
  return offset < tokenCount && length <= tokenCount - offset;
}

const isCount = (value: number | undefined): value is number =>
  value !== undefined && Number.isSafeInteger(value) && value >= 0;
