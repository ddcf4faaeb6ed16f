import { badRequest, invalidField } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type ContentFormat } from '../template/content-format.ts';
import { readContentParts, type ContentPart, type ImageReference } from './content-parts.ts';
import { readToolCalls } from './tool-calls.ts';

/** Messages as the template sees them, and their images in order of appearance. */
export interface Conversation {
  readonly messages: JsonObject[];
  readonly images: readonly ImageReference[];
  /** Tool calls of all messages. */
  readonly toolCallCount: number;
}

/** What the normalisation of messages depends on. */
export interface MessageSettings {
  readonly format: ContentFormat;
  /** Text that stands for one image in the format `string`. */
  readonly imagePlaceholder: string;
  /** True when the template names the role `developer` itself. */
  readonly knowsDeveloper: boolean;
}

/** Messages of one request. */
const MAX_MESSAGES = 4096;
const BILLING_HEADER = 'x-anthropic-billing-header';
/** Upstream reports the first member of its union of message types. */
const SCHEMA = 'ChatCompletionDeveloperMessageParam';

interface Message {
  role: string;
  content: string | ContentPart[];
  readonly source: JsonObject;
}

/** Brings the messages of a request into the form that upstream hands to templates. */
export function readMessages(
  value: JsonValue | undefined,
  settings: MessageSettings,
): Conversation {
  if (value === undefined) throw invalidField('body.messages', 'Field required');
  if (value === null) throw badRequest("'NoneType' object is not iterable");
  if (!Array.isArray(value)) throw invalidField('body.messages', 'Input should be a valid list');
  if (value.length === 0) {
    throw badRequest(
      'Cannot apply chat template to an empty conversation. Provide at least one message.',
    );
  }
  if (value.length > MAX_MESSAGES) {
    throw badRequest(`At most ${MAX_MESSAGES} messages may be rendered at once.`, 'messages');
  }
  const messages = foldDevelopers(value.map(readMessage), settings.knowsDeveloper);
  const images = messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((part) => (part.kind === 'image' ? [part.image] : [])),
  );
  const normalised = messages.map((message) => toTemplateMessage(message, settings));
  const toolCallCount = normalised.reduce((sum, message) => {
    const calls = message.get('tool_calls');
    return sum + (Array.isArray(calls) ? calls.length : 0);
  }, 0);
  return { messages: normalised, images, toolCallCount };
}

function readMessage(value: JsonValue, at: number): Message {
  const location = `body.messages.${at}.${SCHEMA}`;
  if (!(value instanceof Map)) throw invalidField(location, 'Input should be a valid dictionary');
  const role = value.get('role');
  if (typeof role !== 'string') throw invalidField(`${location}.role`, 'Field required');
  return { role, content: readContent(value, role, location), source: value };
}

function readContent(message: JsonObject, role: string, location: string): string | ContentPart[] {
  const content = message.get('content');
  if (content === undefined || (content === null && role === 'assistant')) return [];
  if (typeof content === 'string') {
    return role === 'system' ? withoutBillingHeader(content) : content;
  }
  if (Array.isArray(content)) {
    const parts = readContentParts(content);
    return role === 'system' ? parts.map(withoutBillingPart) : parts;
  }
  if (content instanceof Map) throw badRequest('content must be a string or a list of parts');
  throw invalidField(`${location}.content`, 'Input should be a valid string');
}

function withoutBillingHeader(text: string): string {
  return text.startsWith(BILLING_HEADER) ? text.replace(/^.*\n?/, '') : text;
}

function withoutBillingPart(part: ContentPart): ContentPart {
  return part.kind === 'text' ? { ...part, text: withoutBillingHeader(part.text) } : part;
}

/** A template that does not know developers gets one system message, all of them merged, at the front. */
function foldDevelopers(messages: Message[], knowsDeveloper: boolean): Message[] {
  if (knowsDeveloper || !messages.some(({ role }) => role === 'developer')) return messages;
  const isSystem = ({ role }: Message) => role === 'developer' || role === 'system';
  const [first, ...rest] = messages.filter(isSystem);
  if (first === undefined) return messages;
  const merged: Message = {
    role: 'system',
    content: [first, ...rest].map(({ content }) => joinTexts(content)).join('\n\n'),
    source: first.source,
  };
  return [merged, ...messages.filter((message) => !isSystem(message))];
}

function joinTexts(content: string | ContentPart[]): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('\n');
}

function toTemplateMessage(message: Message, settings: MessageSettings): JsonObject {
  const { role, source } = message;
  const result: JsonObject = new Map<string, JsonValue>([
    ['role', role],
    ['content', templateContent(message, settings)],
  ]);
  const name = source.get('name');
  if (typeof name === 'string') result.set('name', name);
  if (role === 'assistant') addAssistantFields(result, source);
  if (role === 'tool' && source.has('tool_call_id')) {
    result.set('tool_call_id', source.get('tool_call_id') ?? null);
  }
  if (role === 'developer' && source.has('tools')) {
    result.set('tools', source.get('tools') ?? null);
  }
  const task = source.get('task');
  if (typeof task === 'string') result.set('task', task);
  return result;
}

function addAssistantFields(result: JsonObject, source: JsonObject): void {
  const calls = readToolCalls(source.get('tool_calls'));
  if (calls !== undefined) result.set('tool_calls', calls);
  const reasoning = source.get('reasoning') ?? source.get('reasoning_content');
  if (typeof reasoning === 'string') {
    result.set('reasoning', reasoning);
    result.set('reasoning_content', reasoning);
  }
}

function templateContent({ role, content }: Message, settings: MessageSettings): JsonValue {
  if (settings.format === 'string') {
    return typeof content === 'string' ? content : textWithPlaceholders(content, settings);
  }
  const isPlainTool =
    role === 'tool' && typeof content !== 'string' && content.every((part) => part.kind === 'text');
  if (isPlainTool) return joinTexts(content);
  return typeof content === 'string'
    ? [
        new Map<string, JsonValue>([
          ['type', 'text'],
          ['text', content],
        ]),
      ]
    : content.map(templatePart);
}

function templatePart(part: ContentPart): JsonObject {
  return new Map<string, JsonValue>([
    ['type', part.kind],
    ...(part.kind === 'text' ? [['text', part.text] as const] : []),
    ...part.extras,
  ]);
}

/** Placeholders the user wrote stand for the first images; the missing ones go to the front of the text. */
function textWithPlaceholders(
  content: readonly ContentPart[],
  { imagePlaceholder }: MessageSettings,
): string {
  // Upstream drops empty texts in this format, and only in this one.
  const text = joinTexts(content.filter((part) => part.kind !== 'text' || part.text !== ''));
  const imageCount = content.filter((part) => part.kind === 'image').length;
  if (imageCount === 0) return text;
  const missing = imageCount - (text.split(imagePlaceholder).length - 1);
  if (missing < 0) {
    throw badRequest(
      `Found more ${imagePlaceholder} placeholders in input prompt than actual multimodal data items. (parameter=messages)`,
      'messages',
    );
  }
  const placeholders = Array.from({ length: missing }, () => imagePlaceholder);
  return [...placeholders, ...(text === '' ? [] : [text])].join('\n');
}
