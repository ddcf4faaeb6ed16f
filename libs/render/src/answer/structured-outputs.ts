import { badRequest, notImplemented } from '../errors.ts';
import { type RequestFields } from '../chat/request-fields.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';

const CONSTRAINTS = ['json', 'regex', 'choice', 'grammar', 'json_object'] as const;

/**
 * The `structured_outputs` of the sampling parameters that `response_format`, `structured_outputs` or a tool parser
 * asks for.
 */
export function structuredOutputs(
  fields: RequestFields,
  structuralTag?: string,
): JsonObject | undefined {
  const direct = fields.object('structured_outputs');
  const requested = direct ?? fromResponseFormat(fields.object('response_format'));
  if (requested !== undefined && structuralTag !== undefined) {
    throw notImplemented('structured output beside a tool that must be called', 'tool_choice');
  }
  const wanted = structuralTag === undefined ? requested : new Map<string, JsonValue>();
  if (wanted === undefined) return undefined;
  const known = new Set<string>([
    ...CONSTRAINTS,
    'disable_any_whitespace',
    'disable_additional_properties',
    'whitespace_pattern',
  ]);
  for (const key of wanted.keys()) {
    if (!known.has(key)) throw notImplemented(`structured_outputs.${key}`, 'structured_outputs');
  }
  return new Map<string, JsonValue>([
    ...CONSTRAINTS.map((key): [string, JsonValue] => [key, wanted.get(key) ?? null]),
    ['disable_any_whitespace', wanted.get('disable_any_whitespace') ?? false],
    ['disable_additional_properties', wanted.get('disable_additional_properties') ?? false],
    ['whitespace_pattern', wanted.get('whitespace_pattern') ?? null],
    ['structural_tag', structuralTag ?? null],
    ['_backend', null],
    ['_backend_was_auto', false],
  ]);
}

function fromResponseFormat(format: JsonObject | undefined): JsonObject | undefined {
  const type = format?.get('type');
  switch (type) {
    case undefined:
    case 'text':
      return undefined;
    case 'json_object':
      return new Map([['json_object', true]]);
    case 'json_schema': {
      const wrapper = format?.get('json_schema');
      const schema = wrapper instanceof Map ? wrapper.get('schema') : undefined;
      if (schema === undefined || schema === null) {
        throw badRequest('response_format.json_schema.schema is missing', 'response_format');
      }
      return new Map([['json', schema]]);
    }
    default:
      throw notImplemented('this response_format', 'response_format');
  }
}
