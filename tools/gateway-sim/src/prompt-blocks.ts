import { hash } from 'node:crypto';

/** A prompt as the picker sees it: chained block hashes, the last one possibly partial. */
export interface PromptBlocks {
  /** Tokens, or the estimate for text. */
  tokens: number;
  /** Hashes of whole blocks; a shared prefix gives equal leading hashes. */
  blocks: string[];
  /** Hash of the whole blocks plus the rest, when there is a rest. */
  partial: string | undefined;
}

/** An inference body of no use to the picker; its text goes to the caller. */
export class BadInferenceBody extends Error {
  override readonly name = 'BadInferenceBody';
}

/** Tokens beyond this are not looked at, as in the EPP. */
const maxPrefixTokens = 131_072;

type Item = number | string;

/** Cuts the prompt of an inference body into blocks. Throws BadInferenceBody. */
export function promptBlocks(path: string, body: unknown, blockSize: number): PromptBlocks {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new BadInferenceBody('request body is not a JSON object');
  }
  const fields = body as Record<string, unknown>;
  const items = promptItems(path, fields);
  const model = typeof fields['model'] === 'string' ? fields['model'] : '';
  return chain(items, blockSize, model);
}

/** Chains fixed-size blocks from the model name on. */
export function chain(items: readonly Item[], blockSize: number, model: string): PromptBlocks {
  const looked = items.slice(0, maxPrefixTokens);
  const blocks: string[] = [];
  let previous = model;
  let start = 0;
  for (; start + blockSize <= looked.length; start += blockSize) {
    previous = hash('sha1', `${previous}|${looked.slice(start, start + blockSize).join(',')}`);
    blocks.push(previous);
  }
  const rest = looked.slice(start);
  const partial = rest.length > 0 ? hash('sha1', `${previous}|${rest.join(',')}`) : undefined;
  return { tokens: items.length, blocks, partial };
}

function promptItems(path: string, fields: Record<string, unknown>): Item[] {
  const { tokens, token_ids: tokenIds, prompt, messages } = fields;
  // A coordinator that has rendered the prompt says so, which is better than guessing from text.
  const carried = isRecord(tokens) ? idList(tokens['token_ids']) : undefined;
  const ids = carried ?? idList(tokenIds) ?? idList(prompt);
  if (ids) return ids;
  if (path.endsWith('/chat/completions')) {
    if (!Array.isArray(messages)) throw new BadInferenceBody('messages is required');
    return (messages as unknown[]).flatMap(messageItems);
  }
  if (path.endsWith('/completions')) {
    if (typeof prompt === 'string') return words(prompt);
    if (Array.isArray(prompt)) return (prompt as unknown[]).flatMap(anyText);
    throw new BadInferenceBody('prompt is required');
  }
  if (path.endsWith('/responses')) {
    const { input, instructions } = fields;
    if (typeof input === 'string') return [instructions, input].flatMap(anyText);
    if (Array.isArray(input)) return [instructions, ...(input as unknown[])].flatMap(inputItems);
    throw new BadInferenceBody('input is required');
  }
  if (path.endsWith('/generate')) throw new BadInferenceBody('token_ids is required');
  return [];
}

function messageItems(message: unknown): Item[] {
  if (!isRecord(message)) return [];
  const { role, content } = message;
  const parts: unknown[] = Array.isArray(content) ? content : [content];
  return [`<${String(role)}>`, ...parts.flatMap(anyText)];
}

/** An item of the Responses API: a message, or something else as a whole, parts of results one by one. */
function inputItems(item: unknown): Item[] {
  if (isRecord(item) && Array.isArray(item['output'])) {
    return (item['output'] as unknown[]).flatMap(anyText);
  }
  return isRecord(item) && 'content' in item ? messageItems(item) : anyText(item);
}

/** Text by words; anything else (an image) as one item that differs with its content. */
function anyText(part: unknown): Item[] {
  if (typeof part === 'string') return words(part);
  if (Array.isArray(part)) return idList(part) ?? [];
  if (!isRecord(part)) return [];
  if (typeof part['text'] === 'string') return words(part['text']);
  // The name that a coordinator stamps on decode legs is no content.
  return [hash('sha1', JSON.stringify({ ...part, uuid: undefined }))];
}

/** The dummy tokenizer: words and punctuation. */
const words = (text: string): string[] => text.match(/\w+\s*|[^\w\s]\s*/g) ?? [];

const idList = (value: unknown): number[] | undefined =>
  Array.isArray(value) && value.length > 0 && typeof value[0] === 'number'
    ? (value as number[])
    : undefined;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
