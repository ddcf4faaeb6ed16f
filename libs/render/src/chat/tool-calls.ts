import { badRequest, invalidField } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { JsonSyntaxError } from '../json/json-syntax-error.ts';
import { parseJson } from '../json/parse-json.ts';

const LOCATION = 'body.0.ChatCompletionMessageFunctionToolCallParam';

/**
 * The tool calls of an assistant message with their `arguments` parsed; undefined for none. Arguments that are no
 * JSON object become `{}`, as upstream makes of them.
 */
export function readToolCalls(value: JsonValue | undefined): JsonObject[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw invalidField(LOCATION, 'Input should be a valid list');
  return value.length === 0 ? undefined : value.map(readToolCall);
}

function readToolCall(value: JsonValue): JsonObject {
  if (!(value instanceof Map)) throw invalidField(LOCATION, 'Input should be a valid dictionary');
  const type = value.get('type');
  if (type !== 'function') {
    throw badRequest(
      "chat completions only support assistant tool_calls of type 'function'. (parameter=tool_calls)",
      'tool_calls',
    );
  }
  const fn = value.get('function');
  if (!(fn instanceof Map)) throw invalidField(`${LOCATION}.function`, 'Field required');
  const name = fn.get('name');
  const args = fn.get('arguments');
  if (typeof name !== 'string' || typeof args !== 'string') {
    throw invalidField(`${LOCATION}.function`, 'Input should be a valid string');
  }
  const call: JsonObject = new Map();
  for (const [key, item] of value) {
    if (key === 'id' || key === 'type') call.set(key, item);
    else if (key === 'function') call.set(key, readFunction(fn, args));
  }
  return call;
}

function readFunction(fn: JsonObject, args: string): JsonObject {
  const result: JsonObject = new Map();
  for (const [key, item] of fn) {
    if (key === 'arguments') result.set(key, parseArguments(args));
    else if (key === 'name') result.set(key, item);
  }
  return result;
}

function parseArguments(text: string): JsonObject {
  try {
    const value = parseJson(Buffer.from(text), { allowNonFinite: true });
    return value instanceof Map ? value : new Map<string, JsonValue>();
  } catch (error) {
    if (error instanceof JsonSyntaxError) return new Map();
    throw error;
  }
}
