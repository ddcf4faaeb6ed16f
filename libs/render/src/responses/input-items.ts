import { badRequest, invalidField, type RenderError } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';

const ROLES = new Set(['user', 'assistant', 'system', 'developer']);

/** The `input` of a responses request as chat messages; items that belong to one turn of the assistant become one. */
export function readInput(input: JsonValue | undefined): JsonObject[] {
  if (input === undefined) throw invalidField('body.input', 'Field required');
  if (typeof input === 'string') return [message('user', input)];
  if (!Array.isArray(input)) throw invalidField('body.input', 'Input should be a valid list');
  const messages: JsonObject[] = [];
  input.forEach((item, at) => {
    addItem(messages, item, at);
  });
  return messages;
}

/** Whether the last item is a message that the model shall go on with. */
export function isContinued(input: JsonValue | undefined): boolean {
  const last = Array.isArray(input) ? input.at(-1) : undefined;
  if (!(last instanceof Map)) return false;
  const type = last.get('type') ?? 'message';
  const status = last.get('status');
  return (
    (type === 'message' || type === 'reasoning') &&
    (status === 'in_progress' || status === 'incomplete')
  );
}

function addItem(messages: JsonObject[], item: JsonValue, at: number): void {
  if (!(item instanceof Map)) throw invalidItem(at, 'should be a valid dictionary');
  const type = item.get('type') ?? 'message';
  switch (type) {
    case 'message':
      addMessage(messages, item, at);
      return;
    case 'reasoning':
      messages.push(
        new Map([
          ['role', 'assistant'],
          ['reasoning', reasoningText(item, at)],
        ]),
      );
      return;
    case 'function_call':
      addCall(messages, item, at);
      return;
    case 'function_call_output':
      messages.push(
        message('tool', readContent(item.get('output'), at)).set(
          'tool_call_id',
          requireText(item, 'call_id', at),
        ),
      );
      return;
    default:
      if (typeof type !== 'string') throw invalidItem(at, 'type should be a valid string');
      throw badRequest(`Unsupported input item type: ${type} (parameter=input)`, 'input');
  }
}

function addMessage(messages: JsonObject[], item: JsonObject, at: number): void {
  const role = requireText(item, 'role', at);
  if (!ROLES.has(role)) throw invalidItem(at, `role should be one of ${[...ROLES].join(', ')}`);
  const content = readContent(item.get('content'), at);
  const last = messages.at(-1);
  // Reasoning and calls came before the text of the same turn.
  if (role === 'assistant' && last?.get('role') === 'assistant' && !last.has('content')) {
    last.set('content', content);
  } else {
    messages.push(message(role, content));
  }
}

function addCall(messages: JsonObject[], item: JsonObject, at: number): void {
  const call: JsonObject = new Map<string, JsonValue>([
    ['id', requireText(item, 'call_id', at)],
    ['type', 'function'],
    [
      'function',
      new Map([
        ['name', requireText(item, 'name', at)],
        ['arguments', requireText(item, 'arguments', at)],
      ]),
    ],
  ]);
  const last = messages.at(-1);
  if (last?.get('role') !== 'assistant') {
    messages.push(
      new Map<string, JsonValue>([
        ['role', 'assistant'],
        ['tool_calls', [call]],
      ]),
    );
    return;
  }
  const calls = last.get('tool_calls');
  last.set('tool_calls', Array.isArray(calls) ? [...calls, call] : [call]);
}

/** The text of the first content part, else of the summary, as upstream takes it. */
function reasoningText(item: JsonObject, at: number): string {
  if ((item.get('encrypted_content') ?? '') !== '') {
    throw badRequest('Encrypted content is not supported.');
  }
  for (const list of [item.get('content'), item.get('summary')]) {
    const first = Array.isArray(list) ? list[0] : undefined;
    if (first instanceof Map) return requireText(first, 'text', at);
  }
  return '';
}

/** A text, or parts in their chat form. */
function readContent(content: JsonValue | undefined, at: number): string | JsonObject[] {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalidItem(at, 'needs a text or a list of parts');
  return content.map((part) => readPart(part, at));
}

function readPart(part: JsonValue, at: number): JsonObject {
  if (!(part instanceof Map)) throw invalidItem(at, 'has a part that is no dictionary');
  const type = part.get('type');
  switch (type) {
    case 'input_text':
    case 'output_text':
      return new Map([
        ['type', 'text'],
        ['text', requireText(part, 'text', at)],
      ]);
    case 'refusal':
      return new Map([
        ['type', 'refusal'],
        ['refusal', requireText(part, 'refusal', at)],
      ]);
    case 'input_image':
      return new Map<string, JsonValue>([
        ['type', 'image_url'],
        ['image_url', new Map([['url', requireText(part, 'image_url', at)]])],
        ['uuid', part.get('uuid') ?? null],
      ]);
    default:
      throw invalidItem(at, 'has a part of an unknown type');
  }
}

function message(role: string, content: string | JsonObject[]): JsonObject {
  return new Map<string, JsonValue>([
    ['role', role],
    ['content', content],
  ]);
}

function requireText(object: JsonObject, key: string, at: number): string {
  const value = object.get(key);
  if (typeof value !== 'string') throw invalidItem(at, `${key} should be a valid string`);
  return value;
}

function invalidItem(at: number, message: string): RenderError {
  return invalidField('body.input', `item ${at} ${message}`);
}
