import { notImplemented } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type ToolSettings } from '../chat/tools.ts';
import { jsonDumps } from '../python/json-dumps.ts';
import { fromJson } from '../python/value.ts';

/** The two spellings of a call that the model may choose from. */
const SPELLINGS = [
  { before: '<tool_call>\n', after: '\n</tool_call>' },
  { before: '<tool_call>', after: '</tool_call>' },
];

/**
 * The `structural_tag` that vLLM's tool parser `hermes` adds when a tool must be called; undefined when none must be.
 * Throws a 501 where the parser's own words are not known.
 */
export function hermesStructure(
  { tools, choice }: ToolSettings,
  allowsParallelCalls: boolean,
): string | undefined {
  if (tools === undefined || choice === 'none' || choice === 'auto') return undefined;
  const named = namedFunction(choice);
  const functions = tools
    .map((tool) => tool.get('function'))
    .filter((fn): fn is JsonObject => fn instanceof Map)
    .filter((fn) => named === undefined || fn.get('name') === named);
  if (functions.some((fn) => fn.get('strict') === true)) {
    throw notImplemented('a strict tool that must be called', 'tools');
  }
  if (!allowsParallelCalls && named === undefined) {
    throw notImplemented('tool_choice "required" without parallel calls', 'parallel_tool_calls');
  }
  const tags = functions.flatMap((fn) => SPELLINGS.map((spelling) => tag(fn, spelling)));
  const format = new Map<string, JsonValue>([
    ['type', 'tags_with_separator'],
    ['tags', tags],
    ['separator', ''],
    ['at_least_one', true],
    ['stop_after_first', named !== undefined],
  ]);
  return jsonDumps(
    fromJson(
      new Map<string, JsonValue>([
        ['type', 'structural_tag'],
        ['format', format],
      ]),
    ),
  );
}

function namedFunction(choice: JsonValue): JsonValue | undefined {
  const fn = choice instanceof Map ? choice.get('function') : undefined;
  return fn instanceof Map ? fn.get('name') : undefined;
}

function tag(fn: JsonObject, { before, after }: (typeof SPELLINGS)[number]): JsonObject {
  const name = fn.get('name');
  const content = new Map<string, JsonValue>([
    ['type', 'json_schema'],
    ['json_schema', true],
    ['style', 'json'],
    ['any_order', false],
    ['max_whitespace_cnt', null],
    ['excludes', []],
  ]);
  return new Map<string, JsonValue>([
    ['type', 'tag'],
    ['begin', `${before}{"name": "${typeof name === 'string' ? name : ''}", "arguments": `],
    ['content', content],
    ['end', `}${after}`],
  ]);
}
