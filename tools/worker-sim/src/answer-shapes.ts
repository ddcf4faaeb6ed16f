import { randomBytes } from 'node:crypto';
import { type Answer, type AnswerToken } from './answer-text.ts';
import { type JsonObject } from './exact-json.ts';
import { type Api } from './inference-input.ts';
import { closingEvents, deltaEvent, openingEvents, responseObject } from './response-shapes.ts';

/** What every frame and body of one answer repeats. */
export interface AnswerHead {
  api: Api;
  /** Engine id of the request. */
  id: string;
  model: string;
  /** Unix seconds. */
  created: number;
  promptTokens: number;
  cachedTokens: number;
  wantsLogprobs: boolean;
}

/** One sequence of the answer: which choice, what it says, its whole text on generate in text mode. */
export interface Choice {
  index: number;
  answer: Answer;
  text: string | undefined;
}

const idPrefix: Readonly<Record<Exclude<Api, 'responses'>, string>> = {
  chat: 'chatcmpl-',
  completions: 'cmpl-',
  generate: 'generate-tokens-',
};

/** Engine id of a request, as vLLM 0.32 makes it: the Responses API takes no name from outside. */
export const engineRequestId = (api: Api, requestId: string): string =>
  api === 'responses' ? `resp_${randomBytes(8).toString('hex')}` : idPrefix[api] + requestId;

const fingerprint = 'worker-sim';

/** Token counts of an answer; details as 0.32 shows them when switched on. */
export function usageOf(head: AnswerHead, completionTokens: number): JsonObject {
  return {
    prompt_tokens: head.promptTokens,
    total_tokens: head.promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: { cached_tokens: head.cachedTokens },
    completion_tokens_details: null,
  };
}

/** The whole answer of a call that does not stream. */
export function wholeAnswer(
  head: AnswerHead,
  choices: readonly Choice[],
  params: { kv: JsonObject | null; ec: JsonObject | null },
): JsonObject {
  if (head.api === 'responses') return responseObject(head, choices, params);
  const completionTokens = choices.reduce((sum, { answer }) => sum + answer.tokens.length, 0);
  const usage = usageOf(head, completionTokens);
  const transfer = { kv_transfer_params: params.kv, ec_transfer_params: params.ec };
  if (head.api === 'generate') {
    const hasText = choices.some(({ text }) => text !== undefined);
    return {
      request_id: head.id,
      model: head.model,
      created: head.created,
      usage,
      prompt_logprobs: null,
      prompt_token_id_logprobs: null,
      prompt_token_ids: null,
      mm_placeholders: null,
      metrics: null,
      ...transfer,
      output_mode: hasText ? 'text' : 'tokens',
      choices: choices.map(generateChoice),
    };
  }
  const isChat = head.api === 'chat';
  return {
    id: head.id,
    object: isChat ? 'chat.completion' : 'text_completion',
    created: head.created,
    model: head.model,
    choices: choices.map((choice) => (isChat ? chatChoice : completionChoice)(head, choice)),
    service_tier: null,
    system_fingerprint: fingerprint,
    usage,
    ...(isChat ? { prompt_logprobs: null, prompt_token_ids: null, prompt_text: null } : {}),
    ...transfer,
    metrics: null,
  };
}

const textOf = ({ tokens }: { tokens: readonly AnswerToken[] }): string =>
  tokens.map(({ text }) => text).join('');

/** Every token is certain: the shape is what clients read. */
const chatLogprobs = (tokens: readonly AnswerToken[]): JsonObject => ({
  content: tokens.map(({ text: token }) => ({ token, logprob: 0, bytes: null, top_logprobs: [] })),
});

const textLogprobs = (tokens: readonly AnswerToken[]): JsonObject => ({
  tokens: tokens.map(({ text }) => text),
  token_logprobs: tokens.map(() => 0),
  top_logprobs: tokens.map(() => null),
  text_offset: tokens.map((_, at) => textOf({ tokens: tokens.slice(0, at) }).length),
});

const toolCall = (head: AnswerHead, index: number, name: string, args: string): JsonObject => ({
  id: `call-${head.id}-${index}`,
  type: 'function',
  function: { name, arguments: args },
});

const chatChoice = (head: AnswerHead, { index, answer }: Choice): JsonObject => ({
  index,
  message: {
    role: 'assistant',
    content: answer.tool === undefined ? textOf(answer) : null,
    ...(answer.tool === undefined
      ? {}
      : { tool_calls: [toolCall(head, index, answer.tool, textOf(answer))] }),
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    reasoning: null,
  },
  logprobs: head.wantsLogprobs ? chatLogprobs(answer.tokens) : null,
  finish_reason: answer.finishReason,
  stop_reason: answer.stopReason,
  token_ids: null,
});

const completionChoice = (head: AnswerHead, { index, answer }: Choice): JsonObject => ({
  index,
  text: textOf(answer),
  logprobs: head.wantsLogprobs ? textLogprobs(answer.tokens) : null,
  finish_reason: answer.finishReason,
  stop_reason: answer.stopReason,
  token_ids: null,
  prompt_logprobs: null,
  prompt_token_ids: null,
});

const generateChoice = ({ index, answer, text }: Choice): JsonObject => ({
  index,
  finish_reason: answer.finishReason,
  stop_reason: answer.stopReason,
  token_ids: answer.tokens.map(({ id }) => id),
  routed_experts: null,
  sampling_mask: null,
  weight_versions:
    answer.tokens.length === 0 ? [] : [{ version: 'default', start: 0, end: answer.tokens.length }],
  ...(text === undefined ? {} : { text }),
  logprobs: null,
});

/** Frames before the first token: chat announces the role of every choice, a response what it consists of. */
export function openingFrames(head: AnswerHead, choices: readonly Choice[]): JsonObject[] {
  if (head.api === 'responses') return openingEvents(head);
  if (head.api !== 'chat') return [];
  return choices.map(({ index }) => ({
    ...chunkHead(head),
    choices: [
      { index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
    ],
    prompt_token_ids: null,
    prompt_text: null,
  }));
}

/** The frame of one token; the last one of a choice carries its finish reason. */
export function tokenFrame(head: AnswerHead, choice: Choice, at: number): JsonObject {
  const { index, answer, text } = choice;
  const token = answer.tokens[at];
  const isLast = at === answer.tokens.length - 1;
  const finish = isLast ? answer.finishReason : null;
  const stop = isLast ? { stop_reason: answer.stopReason } : {};
  switch (head.api) {
    case 'chat':
      return {
        ...chunkHead(head),
        choices: [
          {
            index,
            delta: chatDelta(head, index, answer, token),
            logprobs: head.wantsLogprobs && token ? chatLogprobs([token]) : null,
            finish_reason: finish,
            ...stop,
            token_ids: null,
          },
        ],
      };
    case 'completions':
      return {
        ...chunkHead(head),
        choices: [
          {
            index,
            text: token?.text ?? '',
            logprobs: head.wantsLogprobs && token ? textLogprobs([token]) : null,
            finish_reason: finish,
            stop_reason: isLast ? answer.stopReason : null,
            prompt_token_ids: null,
            token_ids: null,
          },
        ],
      };
    case 'responses':
      return deltaEvent(head, choice, at);
    case 'generate':
      return {
        request_id: head.id,
        usage: null,
        output_mode: text === undefined ? 'tokens' : 'text',
        choices: [
          {
            index,
            finish_reason: finish,
            stop_reason: isLast ? answer.stopReason : null,
            token_ids: token ? [token.id] : [],
            routed_experts: null,
            sampling_mask: null,
            weight_versions: isLast ? generateVersions(answer) : null,
            logprobs: null,
          },
        ],
      };
  }
}

function chatDelta(
  head: AnswerHead,
  index: number,
  { tool }: Answer,
  token: AnswerToken | undefined,
): JsonObject {
  const text = token?.text ?? '';
  return tool === undefined
    ? { content: text }
    : { tool_calls: [{ index: 0, ...toolCall(head, index, tool, text) }] };
}

const generateVersions = ({ tokens }: Answer): JsonObject[] => [
  { version: 'default', start: 0, end: tokens.length },
];

/** Frames after the last token; `usage` asks for the frame with the token counts. */
export function closingFrames(
  head: AnswerHead,
  choices: readonly Choice[],
  { completionTokens, usage }: { completionTokens: number; usage: boolean },
): (JsonObject | '[DONE]')[] {
  if (head.api === 'responses') return closingEvents(head, choices);
  return [...(usage ? [usageFrame(head, completionTokens)] : []), '[DONE]'];
}

function usageFrame(head: AnswerHead, completionTokens: number): JsonObject {
  const { prompt_tokens, total_tokens, completion_tokens } = usageOf(head, completionTokens);
  const usage = { prompt_tokens, total_tokens, completion_tokens };
  return head.api === 'generate'
    ? { request_id: head.id, usage, output_mode: 'tokens', choices: [] }
    : { ...chunkHead(head), choices: [], usage, system_fingerprint: fingerprint };
}

const chunkHead = (head: AnswerHead): JsonObject => ({
  id: head.id,
  object: head.api === 'chat' ? 'chat.completion.chunk' : 'text_completion',
  created: head.created,
  model: head.model,
});
