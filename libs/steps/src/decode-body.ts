import {
  editObject,
  type JsonDocument,
  type JsonInput,
  jsonRaw,
  type JsonRaw,
  setMember,
} from '@llm-d/json-document';
import { type RequestContext, type StepDependencies } from '@llm-d/pipeline';
import { chatTokens } from './chat-tokens.ts';

/** Of a request what its decode body is made of. */
export type DecodeSource = Pick<RequestContext, 'api' | 'body' | 'media' | 'tokenIds'>;

/** Puts the rendered ids in the place of a completions prompt, so that no worker tokenizes again. */
export function promptEdit(ctx: Pick<RequestContext, 'tokenIds'>): { prompt?: JsonInput } {
  return ctx.tokenIds && ctx.tokenIds.length > 0 ? { prompt: ctx.tokenIds.raw } : {};
}

/** The client's body with the KV hand-off and, for chat and responses, the hash of each media part. */
export function decodeBody(
  ctx: DecodeSource,
  dependencies: StepDependencies,
  kvParams: JsonInput | undefined,
): JsonRaw {
  const kv = kvParams === undefined ? {} : { kv_transfer_params: kvParams };
  switch (ctx.api) {
    case 'chat': {
      const body = withUuids(ctx).with({ ...kv, ...chatTokens(ctx, dependencies) });
      return body.toRaw();
    }
    case 'responses':
      return withUuids(ctx).with(kv).toRaw();
    case 'completions':
      return ctx.body.with({ ...kv, ...promptEdit(ctx) }).toRaw();
    case 'generate':
      return generateBody(ctx.body, kv, dependencies);
  }
}

/** Workers take a part's `uuid` for its content hash, and find the embedding under it. */
function withUuids(ctx: DecodeSource): JsonDocument {
  const patches = ctx.media.flatMap(({ part, hash }) =>
    part && hash ? [setMember(part, 'uuid', hash)] : [],
  );
  return patches.length > 0 ? ctx.body.patch(patches) : ctx.body;
}

function generateBody(
  body: JsonDocument,
  kv: Record<string, JsonInput>,
  { wire }: StepDependencies,
): JsonRaw {
  if (wire.generateTransferParams === 'top-level' || Object.keys(kv).length === 0) {
    return body.with(kv).toRaw();
  }
  const sampling = body.get('sampling_params');
  const extra = sampling?.get('extra_args');
  const extraArgs = extra?.kind === 'object' ? editObject(extra, kv) : jsonRaw(kv);
  const edited =
    sampling?.kind === 'object'
      ? editObject(sampling, { extra_args: extraArgs })
      : jsonRaw({ extra_args: extraArgs });
  return body.with({ sampling_params: edited }).toRaw();
}
