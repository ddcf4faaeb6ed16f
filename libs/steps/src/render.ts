import { duration, oneOf } from '@llm-d/config';
import { apiPaths } from '@llm-d/gateway';
import { type JsonSpan } from '@llm-d/json-document';
import {
  BadRequestError,
  BadUpstreamAnswerError,
  defineStep,
  type MediaEntry,
  type RequestContext,
  TokenIdError,
  TokenIds,
} from '@llm-d/pipeline';
import { z } from 'zod';
import { kwargsOf, readGenerateInput, readTokenIds } from './generate-input.ts';
import { captureHeaders, readLeg } from './leg.ts';
import { refuseOtherMedia } from './other-media.ts';
import { bytesPerMb, count, upstreamAddress, positiveInteger } from './params.ts';
import { isInside, readPlaceholder } from './placeholders.ts';
import { checkPlaceholders, checkTokenCount } from './prompt-limits.ts';

const connectTimeoutMs = 30_000;
const type = 'render';

/** The present spelling and the one before it; a render server that knows neither answers the tensors (render.md 10.2). */
const withoutTensors = { mm_payload: 'none', return_mm_kwargs: false };

/** Gets the token ids of the prompt and the hashes and placeholders of its media from the render service. */
export const render = defineStep({
  type,
  params: z.strictObject({
    address: upstreamAddress.describe(
      "The render service; the client's path and `/render` are appended.",
    ),
    timeout: duration.prefault('30s').describe('Whole call with its body; 0 = no limit.'),
    max_idle_conns_per_host: count
      .prefault(100)
      .describe(
        'Idle connections that are kept longer than a second; 0 means 2. Open ones have no cap.',
      ),
    idle_conn_timeout: duration.prefault('90s').describe('How long an idle connection is kept.'),
    max_response_size: positiveInteger.prefault(256).describe('MB of one answer.'),
    mm_payload: oneOf('full', 'auto')
      .prefault('full')
      .describe(
        '`auto` asks the render service for no image tensors where every leg speaks the OpenAI format, whose workers make their own; `full` sends the body unchanged.',
      ),
    max_total_tokens: count.prefault(0).describe('Longest prompt in tokens; 0 = no limit.'),
    max_total_placeholder_tokens: count
      .prefault(0)
      .describe('Longest share of media in it, in tokens; 0 = no limit.'),
  }),
  create(params, dependencies) {
    const limits = {
      maxTokens: params.max_total_tokens,
      maxPlaceholderTokens: params.max_total_placeholder_tokens,
    };
    const client = dependencies.openUpstream({
      address: params.address,
      connectTimeoutMs,
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
      callTimeoutMs: params.timeout,
      idleTimeoutMs: params.idle_conn_timeout,
      maxIdleConnections: params.max_idle_conns_per_host || 2,
      maxAnswerBytes: params.max_response_size * bytesPerMb,
    });
    const needsNoTensors = params.mm_payload === 'auto' && !dependencies.hasTokensInLegs;
    const call = async (ctx: RequestContext): Promise<JsonSpan> => {
      const path = `${apiPaths[ctx.api]}/render`;
      const body = needsNoTensors ? ctx.body.with(withoutTensors).toRaw() : ctx.body.toRaw();
      const leg = { name: type, step: type, client, path, body };
      const answer = await readLeg(ctx, dependencies, leg);
      captureHeaders(ctx, dependencies, [answer]);
      return answer.value;
    };
    return async (ctx) => {
      switch (ctx.api) {
        case 'chat':
        case 'responses': {
          const answer = await call(ctx);
          ctx.tokenIds = renderedIds(answer);
          checkTokenCount(ctx.tokenIds.length, limits);
          if (dependencies.hasTokensInLegs) refuseOtherMedia(ctx, answer.get('features'));
          ctx.media = renderedMedia(ctx, answer, ctx.tokenIds.length);
          checkPlaceholders(ctx, limits);
          break;
        }
        case 'completions': {
          const prompt = ctx.body.get('prompt');
          if (prompt?.kind === 'string') {
            ctx.tokenIds = renderedIds(onlyElement(await call(ctx)));
            checkTokenCount(ctx.tokenIds.length, limits);
          } else {
            ctx.tokenIds = promptIds(prompt, (length) => checkTokenCount(length, limits));
          }
          break;
        }
        case 'generate':
          readGenerateInput(ctx, limits);
      }
      return 'continue';
    };
  },
});

function renderedIds(answer: JsonSpan): TokenIds {
  const ids = answer.get('token_ids');
  if (ids?.kind !== 'array') throw invalid('token_ids is not a list');
  try {
    return TokenIds.read(ids);
  } catch (cause) {
    if (!(cause instanceof TokenIdError)) throw cause;
    throw invalid(`token_ids: ${cause.message}`);
  }
}

/** The entries of the request with what render knows about each of them. */
function renderedMedia(ctx: RequestContext, answer: JsonSpan, tokenCount: number): MediaEntry[] {
  const features = answer.get('features');
  const imagesOf = (map: string): JsonSpan | undefined => features?.get(map)?.get('image');
  const entries = ctx.media.length;
  // An answer without tensors at all (`mm_payload: none`) is whole: workers of OpenAI legs make their own.
  const hasKwargs = features?.get('kwargs_data')?.isNull() !== true;
  const maps = ['mm_hashes', 'mm_placeholders', ...(hasKwargs ? ['kwargs_data'] : [])];
  const lists = maps.map((map) => [...(imagesOf(map)?.elements() ?? [])]);
  if (lists.some((list) => list.length !== entries)) {
    const lengths = lists.map((list) => list.length).join(', ');
    throw invalid(`features describe ${lengths} images, the request has ${entries}`);
  }
  const [hashList, placeholderList, kwargsList] = lists;
  return ctx.media.map((entry, i) => {
    const hash = hashList?.[i]?.text();
    const placeholder = readPlaceholder(placeholderList?.[i]);
    if (hash === undefined || !placeholder || !isInside(placeholder, tokenCount)) {
      throw invalid(`features of image ${i} are not usable`);
    }
    return { ...entry, hash, placeholder, ...kwargsOf(kwargsList?.[i]) };
  });
}

function onlyElement(answer: JsonSpan): JsonSpan {
  const elements = [...answer.elements()];
  const [first] = elements;
  if (elements.length === 1 && first) return first;
  throw invalid(`the answer must be a list of one prompt, it has ${elements.length}`);
}

/** A prompt that came as token ids; the prompts of a batch come here one by one. */
function promptIds(prompt: JsonSpan | undefined, checkCount: (count: number) => void): TokenIds {
  const refused = (message: string): BadRequestError =>
    new BadRequestError(`prompt ${message}`, { param: 'prompt' });
  if (prompt?.kind !== 'array') throw refused('must be a text or a list of token ids');
  const [first] = prompt.elements();
  if (first && first.kind !== 'number') throw refused('must be a text or a list of token ids');
  if (first) checkCount(TokenIds.count(prompt));
  return readTokenIds(prompt, 'prompt');
}

const invalid = (what: string): BadUpstreamAnswerError => new BadUpstreamAnswerError(type, what);
