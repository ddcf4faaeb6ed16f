import { badRequest, invalidField } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type RequestFields } from './request-fields.ts';

const EFFORTS = new Set(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);
/** Variables of the template call itself: a request may always set them. */
const STANDARD = new Set(['tools', 'documents', 'add_generation_prompt', 'continue_final_message']);
/** vLLM 0.33 adds this key to every request's kwargs; it has no meaning outside Cohere's templates. */
const COHERE_FORMAT = 'cmd4';

/** The template kwargs of a request: the server's defaults, the request's own, then its standard fields. */
export function templateKwargs(fields: RequestFields, defaults: JsonObject): JsonObject {
  const own = fields.object('chat_template_kwargs') ?? new Map<string, JsonValue>();
  if (own.has('messages')) {
    throw badRequest("chat_template_kwargs got multiple values for keyword argument 'messages'");
  }
  const addsPrompt = fields.boolean('add_generation_prompt') ?? true;
  const continues = fields.boolean('continue_final_message') ?? false;
  checkContinuation(fields, addsPrompt, continues);
  const kwargs: JsonObject = new Map<string, JsonValue>([
    ['cohere_format', COHERE_FORMAT],
    ...defaults,
    ...own,
    ['add_generation_prompt', addsPrompt],
    ['continue_final_message', continues],
  ]);
  const documents = readDocuments(fields);
  if (documents !== undefined) kwargs.set('documents', documents);
  const effort = fields.text('reasoning_effort');
  if (effort !== undefined) {
    if (!EFFORTS.has(effort)) {
      throw invalidField(
        'body.reasoning_effort',
        `Input should be one of ${[...EFFORTS].join(', ')}`,
      );
    }
    kwargs.set('reasoning_effort', effort);
    if (!own.has('enable_thinking')) kwargs.set('enable_thinking', effort !== 'none');
  }
  return kwargs;
}

/** The kwargs that a template takes: those it reads, and the standard ones. */
export function acceptedKwargs(kwargs: JsonObject, variables: ReadonlySet<string>): JsonObject {
  return new Map([...kwargs].filter(([name]) => STANDARD.has(name) || variables.has(name)));
}

function checkContinuation(fields: RequestFields, addsPrompt: boolean, continues: boolean): void {
  if (!continues || !addsPrompt) return;
  throw badRequest(
    fields.has('add_generation_prompt')
      ? 'Cannot set both `continue_final_message` and `add_generation_prompt` to True.'
      : 'continue_final_message and add_generation_prompt are not compatible. Send add_generation_prompt: false.',
  );
}

function readDocuments(fields: RequestFields): JsonValue[] | undefined {
  const documents = fields.list('documents');
  documents?.forEach((document, at) => {
    const isTextMap =
      document instanceof Map && [...document.values()].every((text) => typeof text === 'string');
    if (!isTextMap)
      throw invalidField(`body.documents.${at}`, 'Input should map strings to strings');
  });
  return documents;
}
