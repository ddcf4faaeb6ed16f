import { badRequest } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { strip } from '../python/text.ts';

/** Marks the end of the text to continue; the blank shows whether the template trims, as in transformers. */
const MARK = 'CONTINUE_FINAL_MESSAGE_TAG ';

/** A copy of the messages whose last text ends in a mark that {@link cutAtMark} finds in the rendered prompt. */
export function markFinalMessage(messages: readonly JsonObject[]): {
  readonly messages: JsonObject[];
  readonly finalText: string;
} {
  const last = messages.at(-1);
  const content = last?.get('content');
  if (typeof content === 'string') {
    return { messages: withContent(messages, content + MARK), finalText: content };
  }
  const parts = Array.isArray(content) ? content : [];
  const at = parts.findLastIndex((part) => part instanceof Map && part.has('text'));
  const part = parts[at];
  const text = part instanceof Map ? part.get('text') : undefined;
  if (!(part instanceof Map) || typeof text !== 'string') {
    throw badRequest(
      'continue_final_message is set but we could not find any text to continue in the final message!',
    );
  }
  const marked = parts.with(at, new Map([...part, ['text', text + MARK]]));
  return { messages: withContent(messages, marked), finalText: text };
}

/** The prompt up to the text to continue; throws a 400 when the template left that text out. */
export function cutAtMark(prompt: string, finalText: string): string {
  const at = prompt.lastIndexOf(MARK.trimEnd());
  if (at === -1 || !prompt.includes(strip(finalText, 'both', undefined))) {
    throw badRequest(
      'continue_final_message is set but the final message does not appear in the chat after applying the chat template!',
    );
  }
  const head = prompt.slice(0, at);
  return prompt.startsWith(MARK, at) ? head : strip(head, 'right', undefined);
}

function withContent(messages: readonly JsonObject[], content: JsonValue): JsonObject[] {
  const last = messages.at(-1) ?? new Map<string, JsonValue>();
  return [...messages.slice(0, -1), new Map([...last, ['content', content]])];
}
