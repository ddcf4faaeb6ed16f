import { badRequest, invalidField } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RequestFields } from './request-fields.ts';

/** Tools of one request. */
const MAX_TOOLS = 512;

/** The tools of a request and how they may be called. */
export interface ToolSettings {
  /** Tools in upstream's normal form, undefined for none. */
  readonly tools: JsonObject[] | undefined;
  readonly choice: JsonValue;
}

/** Reads `tools` and `tool_choice`; `allowsChoice` says whether the workers have a tool parser. */
export function readTools(fields: RequestFields, allowsChoice: boolean): ToolSettings {
  const source = fields.list('tools');
  if (source?.length === 0) {
    throw badRequest(
      '`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)',
      'tools',
    );
  }
  if (source !== undefined && source.length > MAX_TOOLS) {
    throw badRequest(`At most ${MAX_TOOLS} tools may be given.`, 'tools');
  }
  const tools = source?.map(readTool);
  const choice = fields.get('tool_choice') ?? (tools === undefined ? 'none' : 'auto');
  if (choice !== 'none') checkChoice(choice, tools, allowsChoice);
  return { tools, choice };
}

function checkChoice(
  choice: JsonValue,
  tools: readonly JsonObject[] | undefined,
  allowsChoice: boolean,
): void {
  if (tools === undefined) {
    throw badRequest(
      'When using `tool_choice`, `tools` must be set. (parameter=tool_choice)',
      'tool_choice',
    );
  }
  const named = namedTool(choice);
  if (named === undefined && choice !== 'auto' && choice !== 'required') {
    throw badRequest(
      'Invalid value for `tool_choice`! Only named tools, "none", "auto" or "required" are supported. (parameter=tool_choice)',
      'tool_choice',
    );
  }
  if (named !== undefined && !tools.some((tool) => functionName(tool) === named)) {
    throw badRequest(
      'The tool specified in `tool_choice` does not match any of the specified `tools` (parameter=tool_choice)',
      'tool_choice',
    );
  }
  if (allowsChoice) return;
  throw badRequest(
    choice === 'auto'
      ? '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
      : `tool_choice=${named === undefined ? '"required"' : `function "${named}"`} requires --tool-call-parser to be set`,
  );
}

function namedTool(choice: JsonValue): string | undefined {
  if (!(choice instanceof Map)) return undefined;
  const fn = choice.get('function');
  const name = fn instanceof Map ? fn.get('name') : undefined;
  return typeof name === 'string' ? name : undefined;
}

function functionName(tool: JsonObject): JsonValue | undefined {
  const fn = tool.get('function');
  return fn instanceof Map ? fn.get('name') : undefined;
}

/** Fixed key order, nulls for what is absent, nothing else: templates print this form. */
function readTool(value: JsonValue, at: number): JsonObject {
  const location = `body.tools.${at}`;
  if (!(value instanceof Map)) throw invalidField(location, 'Input should be a valid dictionary');
  const type = value.get('type');
  if (type !== undefined && type !== 'function') {
    throw invalidField(`${location}.type`, "Input should be 'function'");
  }
  const fn = value.get('function');
  if (fn === undefined) throw invalidField(`${location}.function`, 'Field required');
  if (!(fn instanceof Map)) {
    throw invalidField(`${location}.function`, 'Input should be a valid dictionary');
  }
  const name = fn.get('name');
  if (typeof name !== 'string') {
    throw invalidField(`${location}.function.name`, 'Input should be a valid string');
  }
  const normal: JsonObject = new Map<string, JsonValue>([
    ['name', name],
    ['description', fn.get('description') ?? null],
    ['parameters', fn.get('parameters') ?? null],
  ]);
  for (const key of ['strict', 'defer_loading']) {
    const setting = fn.get(key) ?? null;
    if (setting !== null) normal.set(key, setting);
  }
  return new Map<string, JsonValue>([
    ['type', 'function'],
    ['function', normal],
  ]);
}
