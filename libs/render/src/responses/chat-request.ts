import { RequestFields } from '../chat/request-fields.ts';
import { badRequest, invalidField, notImplemented } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { isContinued, readInput } from './input-items.ts';

/** Fields that mean the same in both APIs. */
const SHARED = [
  ...['model', 'stream', 'cache_salt', 'priority', 'request_id'],
  ...['kv_transfer_params', 'ec_transfer_params', 'vllm_xargs'],
  ...['chat_template_kwargs', 'mm_processor_kwargs', 'media_io_kwargs'],
  ...['mm_payload', 'return_mm_kwargs', 'structured_outputs'],
  ...['temperature', 'top_p', 'top_k', 'seed', 'stop', 'ignore_eos', 'logit_bias'],
  ...['presence_penalty', 'frequency_penalty', 'repetition_penalty'],
  ...['skip_special_tokens', 'include_stop_str_in_output'],
];
const WITH_LOGPROBS = 'message.output_text.logprobs';

/** The chat request that renders to the same prompt as a responses request. */
export function toChatRequest(fields: RequestFields, maxModelLen: number): RequestFields {
  if (fields.get('previous_input_messages') !== undefined) {
    throw notImplemented('previous_input_messages', 'previous_input_messages');
  }
  if (fields.get('prompt') !== undefined) {
    throw badRequest('prompt template is not supported (parameter=prompt)', 'prompt');
  }
  const input = fields.get('input');
  const instructions = fields.text('instructions') ?? '';
  const system: JsonObject[] =
    instructions === ''
      ? []
      : [
          new Map([
            ['role', 'system'],
            ['content', instructions],
          ]),
        ];
  const tools = functionTools(fields);
  const continues = isContinued(input);
  const withLogprobs = fields.texts('include')?.includes(WITH_LOGPROBS) === true;
  const chat: [string, JsonValue][] = [
    ...SHARED.map((name): [string, JsonValue] => [name, fields.get(name) ?? null]),
    ['messages', [...system, ...readInput(input)]],
    ['tools', tools],
    ['tool_choice', tools === null ? 'none' : toolChoice(fields.get('tool_choice'))],
    ['max_completion_tokens', fields.get('max_output_tokens') ?? null],
    ['truncate_prompt_tokens', truncation(fields, maxModelLen)],
    ['reasoning_effort', fields.object('reasoning')?.get('effort') ?? null],
    ['response_format', responseFormat(fields)],
    // Unlike chat: a template that prints the first token itself gives it twice here.
    ['add_special_tokens', true],
    ['add_generation_prompt', !continues],
    ['continue_final_message', continues],
    ['logprobs', withLogprobs],
    ['top_logprobs', withLogprobs ? (fields.get('top_logprobs') ?? null) : null],
  ];
  return new RequestFields(new Map(chat.filter(([, value]) => value !== null)));
}

/** Functions in their chat form; tools that a server runs itself are not part of the prompt. */
function functionTools(fields: RequestFields): JsonObject[] | null {
  const functions = (fields.list('tools') ?? []).flatMap((tool, at): JsonObject[] => {
    if (!(tool instanceof Map)) {
      throw invalidField(`body.tools.${at}`, 'Input should be a valid dictionary');
    }
    return tool.get('type') === 'function'
      ? [
          new Map<string, JsonValue>([
            ['type', 'function'],
            ['function', tool],
          ]),
        ]
      : [];
  });
  return functions.length > 0 ? functions : null;
}

/** A named function in its chat form; choices that chat does not know leave the model free. */
function toolChoice(choice: JsonValue | undefined): JsonValue {
  if (choice === 'none' || choice === 'required') return choice;
  const isNamed = choice instanceof Map && choice.get('type') === 'function';
  return isNamed
    ? new Map<string, JsonValue>([
        ['type', 'function'],
        ['function', choice],
      ])
    : 'auto';
}

/** Cuts the prompt so that the answer it asks for has room. */
function truncation(fields: RequestFields, maxModelLen: number): bigint | null {
  const mode = fields.text('truncation');
  if (mode !== undefined && mode !== 'auto' && mode !== 'disabled') {
    throw invalidField('body.truncation', "Input should be 'auto' or 'disabled'");
  }
  if (mode !== 'auto') return null;
  const room = BigInt(maxModelLen) - (fields.integer('max_output_tokens') ?? 0n);
  return room < 0n ? 0n : room;
}

function responseFormat(fields: RequestFields): JsonValue {
  const format = fields.object('text')?.get('format') ?? null;
  if (!(format instanceof Map) || format.get('type') !== 'json_schema') return format;
  return new Map<string, JsonValue>([
    ['type', 'json_schema'],
    ['json_schema', format],
  ]);
}
