import { editObject, type JsonInput, type JsonSpan } from '@llm-d/json-document';

/**
 * The choices of one prompt as they stand in the answer of the batch: sample j of prompt i has the index i * n + j, as
 * OpenAI defines it. All other bytes of a choice are kept.
 */
export function placeChoices(choices: JsonSpan, firstIndex: number): JsonInput[] {
  const placed: JsonInput[] = [];
  for (const choice of choices.elements()) {
    const index = choice.get('index')?.number() ?? placed.length;
    placed.push(
      choice.kind === 'object' ? editObject(choice, { index: firstIndex + index }) : choice,
    );
  }
  return placed;
}
