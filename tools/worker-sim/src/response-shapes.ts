import { type AnswerHead, type Choice } from './answer-shapes.ts';
import { type JsonObject } from './exact-json.ts';

/** What an answer of the Responses API hands to the next phase. */
interface TransferParams {
  kv: JsonObject | null;
  ec: JsonObject | null;
}

/** The object of the Responses API, with the members of vLLM 0.32 that clients and coordinators read. */
export function responseObject(
  head: AnswerHead,
  [choice]: readonly Choice[],
  params: TransferParams,
): JsonObject {
  const isCut = choice?.answer.finishReason === 'length';
  return {
    ...responseHead(head),
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    output: choice ? [outputItem(head, textOf(choice), 'completed')] : [],
    usage: usageOf(head, choice?.answer.tokens.length ?? 0),
    kv_transfer_params: params.kv,
    ec_transfer_params: params.ec,
  };
}

/** Events before the first token; they open the only item and its only part. */
export function openingEvents(head: AnswerHead): JsonObject[] {
  const response = { ...responseHead(head), status: 'in_progress', output: [], usage: null };
  return numbered(0, [
    { type: 'response.created', response },
    { type: 'response.in_progress', response },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...outputItem(head, '', 'in_progress'), content: [] },
    },
    { type: 'response.content_part.added', ...place(head), part: textPart('') },
  ]);
}

/** Number of events before the first token. */
const openingCount = 4;

/** The event of one token. */
export function deltaEvent(head: AnswerHead, { answer }: Choice, at: number): JsonObject {
  const delta = answer.tokens[at]?.text ?? '';
  const type = 'response.output_text.delta';
  return { type, sequence_number: openingCount + at, ...place(head), delta, logprobs: [] };
}

/** Events after the last token; there is no `[DONE]`. */
export function closingEvents(head: AnswerHead, choices: readonly Choice[]): JsonObject[] {
  const [choice] = choices;
  const text = choice ? textOf(choice) : '';
  const response = responseObject(head, choices, { kv: null, ec: null });
  return numbered(openingCount + (choice?.answer.tokens.length ?? 0), [
    { type: 'response.output_text.done', ...place(head), text, logprobs: [] },
    { type: 'response.content_part.done', ...place(head), part: textPart(text) },
    {
      type: 'response.output_item.done',
      output_index: 0,
      item: outputItem(head, text, 'completed'),
    },
    { type: 'response.completed', response },
  ]);
}

const numbered = (first: number, events: readonly JsonObject[]): JsonObject[] =>
  events.map((event, at) => ({ ...event, sequence_number: first + at }));

const textOf = ({ answer }: Choice): string => answer.tokens.map(({ text }) => text).join('');

const responseHead = (head: AnswerHead): JsonObject => ({
  id: head.id,
  object: 'response',
  created_at: head.created,
  model: head.model,
});

const itemId = (head: AnswerHead): string => head.id.replace('resp_', 'msg_');

const place = (head: AnswerHead): JsonObject => ({
  item_id: itemId(head),
  output_index: 0,
  content_index: 0,
});

const textPart = (text: string): JsonObject => ({
  type: 'output_text',
  text,
  annotations: [],
  logprobs: null,
});

const outputItem = (head: AnswerHead, text: string, status: string): JsonObject => ({
  id: itemId(head),
  type: 'message',
  role: 'assistant',
  status,
  content: [textPart(text)],
});

const usageOf = (head: AnswerHead, outputTokens: number): JsonObject => ({
  input_tokens: head.promptTokens,
  input_tokens_details: { cached_tokens: head.cachedTokens },
  output_tokens: outputTokens,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: head.promptTokens + outputTokens,
});
