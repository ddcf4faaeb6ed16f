import { type Api, apiPaths, legApi } from '@llm-d/gateway';
import { JsonRaw, jsonRaw, type JsonSpan } from '@llm-d/json-document';
import { ecConnector } from '@llm-d/connectors';
import {
  defineStep,
  type MediaEntry,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { z } from 'zod';
import { features } from './features.ts';
import { offerEc } from './handoffs.ts';
import { isServedByDecodeAlone } from './kv-sequences.ts';
import { captureHeaders, type LegAnswer, objectAnswer, readLeg } from './leg.ts';
import { connectorName, positiveInteger, usesOpenAiFormat } from './params.ts';
import { runLimited } from './run-limited.ts';
import { singleTokenCap } from './single-token-cap.ts';

const type = 'encode';

/** Has one encode worker for each media item compute its embedding; equal items once. */
export const encode = defineStep({
  type,
  params: z.strictObject({
    max_parallel: positiveInteger
      .prefault(8)
      .describe('Encode legs of one request at the same time.'),
    use_openai_format: usesOpenAiFormat,
    kv_connector: connectorName,
    ec_connector: connectorName,
  }),
  create(params, dependencies) {
    const connector = ecConnector(params.ec_connector);
    const isAlone = isServedByDecodeAlone(params.kv_connector, dependencies);
    return async (ctx) => {
      // Prefill encodes tokens-in requests itself, from their features.
      if (ctx.media.length === 0 || ctx.api === 'generate' || isAlone(ctx)) return 'continue';
      const api = legApi(ctx.api, params.use_openai_format);
      const bodies = distinct(ctx.media).map((entry) => encodeBody(ctx, api, entry, dependencies));
      const answers = await runLimited(
        bodies,
        params.max_parallel,
        ctx.signal,
        async (body, index, signal) => {
          const answer = await readLeg(ctx, dependencies, {
            name: `${type}[${index}]`,
            step: type,
            index,
            client: dependencies.gateway,
            path: apiPaths[api],
            body,
            phase: 'encode',
            signal,
          });
          // Written down here: when another item fails nobody looks at this answer again.
          if (connector.collects) {
            offerEc(ctx, dependencies, params.ec_connector, transferParams(answer));
          }
          return answer;
        },
      );
      captureHeaders(ctx, dependencies, answers);
      const answered = answers.flatMap(transferParams);
      if (connector.collects) ctx.ecTransferParams = answered;
      const missing = bodies.length - ctx.ecTransferParams.length;
      if (connector.collects && missing > 0) {
        ctx.log.warn({ missing }, 'encode answers without ec_transfer_params');
      }
      return 'continue';
    };
  },
});

/** The client's own part alone, so that the worker computes the same hash; processor arguments are part of it. */
function encodeBody(
  ctx: RequestContext,
  api: Api,
  entry: MediaEntry,
  { wire }: StepDependencies,
): JsonRaw {
  const { body } = ctx;
  const model = body.get('model');
  const messages = [{ role: 'user', content: entry.part ? [body.extract(entry.part)] : [] }];
  const processing = {
    mm_processor_kwargs: body.get('mm_processor_kwargs'),
    media_io_kwargs: body.get('media_io_kwargs'),
  };
  switch (api) {
    case 'chat': {
      const tokens = wire.hasChatTokens ? { tokens: mediaTokens(ctx, entry, false) } : {};
      return jsonRaw({ model, messages, ...processing, ...singleTokenCap.chat, ...tokens });
    }
    case 'responses':
      return jsonRaw({ model, input: messages, ...processing, ...singleTokenCap.responses });
    case 'completions':
    case 'generate':
      return generateBody(ctx, entry);
  }
}

function generateBody(ctx: RequestContext, entry: MediaEntry): JsonRaw {
  return jsonRaw({
    model: ctx.model,
    ...mediaTokens(ctx, entry, true),
    ...singleTokenCap.generate,
  });
}

/** A prompt of the first token and the item's placeholder run, with the item's features. */
function mediaTokens(ctx: RequestContext, entry: MediaEntry, hasKwargs: boolean) {
  const first = ctx.tokenIds?.at(0) ?? 1;
  const { offset, length } = entry.placeholder ?? { offset: 0, length: 0 };
  const token = ctx.tokenIds?.at(offset) ?? 0;
  const run = length > 0 ? `,${token}`.repeat(length) : '';
  return {
    token_ids: new JsonRaw([Buffer.from(`[${first}${run}]`)]),
    features: features([entry], { hasKwargs, offset: 1 }),
  };
}

function transferParams(answer: LegAnswer): JsonSpan[] {
  const params = objectAnswer(type, answer).get('ec_transfer_params');
  return params?.kind === 'object' && !params.isEmpty() ? [params] : [];
}

/** Of items with the same content hash the first: one embedding serves them all. */
function distinct(entries: readonly MediaEntry[]): MediaEntry[] {
  const seen = new Set<string>();
  return entries.filter(({ hash }) => {
    if (!hash) return true;
    if (seen.has(hash)) return false;
    seen.add(hash);
    return true;
  });
}
