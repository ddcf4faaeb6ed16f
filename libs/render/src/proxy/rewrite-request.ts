import { JsonDocument, type JsonSpan, setMember, type SpanPatch } from '@llm-d/json-document';

import { hasMedia } from '../has-media.ts';

/** Which changes a request undergoes on its way to an upstream. */
export interface RequestRewrites {
  /** Name of the model at the upstreams; undefined leaves it as it is. */
  readonly model?: string | undefined;
  /** Sends `tool_choice: none`, for upstreams without a tool parser. Some templates print the choice. */
  readonly withoutToolChoice?: boolean;
}

/** Fields that are for others than a renderer, and make one refuse or answer differently. */
const DROPPED = ['stream', 'stream_options', 'tokens', 'kv_transfer_params', 'ec_transfer_params'];

/** A request as the upstream gets it; the bytes of the caller where nothing is to change. */
export interface RewrittenRequest {
  readonly chunks: readonly Uint8Array[];
  readonly byteLength: number;
  /** The caller's name of the model where another was sent; the answer has to get it back. */
  readonly callersModel: string | undefined;
  readonly isCheap: boolean;
  /** Media cost an upstream much more than text. */
  readonly hasMedia: boolean;
}

/** Throws a JsonError for a body that is no JSON object. */
export function rewriteRequest(body: Uint8Array, rewrites: RequestRewrites): RewrittenRequest {
  const document = JsonDocument.parse(body);
  const given = document.text('model');
  const isRenamed =
    rewrites.model !== undefined && given !== undefined && given !== '' && given !== rewrites.model;
  const isCheap =
    document.text('mm_payload') === 'none' ||
    (document.get('mm_payload') === undefined &&
      document.get('return_mm_kwargs')?.parse() === false);
  const edits: Record<string, string | boolean | undefined> = {};
  for (const name of DROPPED) if (document.get(name) !== undefined) edits[name] = undefined;
  if (isRenamed) edits['model'] = rewrites.model;
  // Each era knows one of the two.
  if (isCheap) Object.assign(edits, { mm_payload: 'none', return_mm_kwargs: false });
  if (rewrites.withoutToolChoice === true && callsTools(document)) edits['tool_choice'] = 'none';
  const rewritten = document.with(edits).patch(reasoningPatches(document));
  const raw = rewritten.toRaw();
  return {
    chunks: raw.chunks,
    byteLength: raw.byteLength,
    callersModel: isRenamed ? given : undefined,
    isCheap,
    hasMedia: hasMedia(body),
  };
}

function callsTools(document: JsonDocument): boolean {
  const choice = document.get('tool_choice');
  return choice === undefined ? document.get('tools') !== undefined : choice.text() !== 'none';
}

/** Servers know one of the two names; new ones rename the old. */
function* reasoningPatches(document: JsonDocument): Generator<SpanPatch> {
  const messages = document.get('messages');
  if (messages?.kind !== 'array') return;
  for (const message of messages.elements()) {
    const old = message.kind === 'object' ? message.get('reasoning_content') : undefined;
    if (old !== undefined && message.get('reasoning') === undefined) {
      yield setMember(message, 'reasoning', old satisfies JsonSpan);
    }
  }
}
