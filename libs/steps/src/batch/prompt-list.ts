import { type JsonDocument, type JsonSpan } from '@llm-d/json-document';
import { BadRequestError } from '@llm-d/pipeline';
import { readTokenIds } from '../generate-input.ts';

/** Elements beyond the limit are counted for the message, but no further than this. */
const maxCounted = 100_000;

/**
 * The prompts of a batch as they stand in a completions body. Undefined when it has one prompt, a text or a list of token
 * ids, or none at all.
 *
 * @throws BadRequestError naming the prompt that is empty or of another kind, or with both numbers when there are too many.
 */
export function promptList(
  body: JsonDocument,
  maxPrompts: number,
): readonly JsonSpan[] | undefined {
  const prompt = body.get('prompt');
  if (prompt?.kind !== 'array') return undefined;
  const prompts: JsonSpan[] = [];
  let count = 0;
  for (const element of prompt.elements()) {
    if (count === 0 && element.kind === 'number') return undefined;
    if (count++ < maxPrompts) prompts.push(element);
    if (count === maxCounted) break;
  }
  const [first] = prompts;
  if (!first) return undefined;
  if (count > maxPrompts) {
    const counted = count === maxCounted ? `at least ${count}` : count;
    throw new BadRequestError(
      `the request has ${counted} prompts, the limit is ${maxPrompts} (pipeline.max_batch_size)`,
      { param: 'prompt', code: 'BATCH_TOO_LARGE' },
    );
  }
  const check = first.kind === 'string' ? checkText : checkIds;
  prompts.forEach(check);
  return prompts;
}

function checkText(prompt: JsonSpan, index: number): void {
  if (prompt.kind !== 'string') throw refused(index, 'must be a text, as prompt[0] is');
  // Two quotes are an empty text.
  if (prompt.byteLength === 2) throw refused(index, 'must not be an empty text');
}

function checkIds(prompt: JsonSpan, index: number): void {
  if (prompt.kind !== 'array') {
    const others = index === 0 ? 'a text, a token id or ' : '';
    throw refused(index, `must be ${others}a list of token ids`);
  }
  if (prompt.isEmpty()) throw refused(index, 'must hold at least one token id');
  readTokenIds(prompt, `prompt[${index}]`);
}

function refused(index: number, message: string): BadRequestError {
  const param = `prompt[${index}]`;
  return new BadRequestError(`${param} ${message}`, { param });
}
