import { type DecodeParams } from '@llm-d/connectors';
import { apiPaths } from '@llm-d/gateway';
import { type JsonRaw, type JsonSpan } from '@llm-d/json-document';
import { type Handoff, type RequestContext, type StepDependencies } from '@llm-d/pipeline';
import { decodeBody } from './decode-body.ts';
import { sequenceCount } from './kv-sequences.ts';
import { fateAfterRefusal } from './kv-fate.ts';
import { ownHeaders } from './leg.ts';
import { singleTokenCap } from './single-token-cap.ts';

const leg = 'kv-release';

/** Of a KV connector what the account of its hand-offs takes. */
export interface HandoffConnector {
  readonly isLeased: boolean;
  decodeParams(answered: JsonSpan | undefined): DecodeParams;
}

/**
 * How a KV hand-off is given back that no decode leg took: a decode call for the same prompt and one token, whose answer
 * nobody reads. The pod fetches the blocks, and prefill frees them. Undefined where nothing can be given back.
 */
export function kvRelease(
  ctx: RequestContext,
  dependencies: StepDependencies,
  connector: HandoffConnector,
  answered: JsonSpan,
): ((handoff: Handoff) => void) | undefined {
  const { background, kvRelease: policy, kvLeaseMs } = dependencies;
  if (policy === 'lease') return undefined;
  const receivedAt = performance.now();
  return (handoff) => {
    const { params } = connector.decodeParams(answered);
    if (params === undefined) {
      handoff.settle('expired');
      return;
    }
    const body = decodeBody({ ...pick(ctx), body: capped(ctx) }, dependencies, params);
    const isTaken = background.run(body.byteLength, async (signal) => {
      // The pod has to be in time too, after its own queue; and there is less to win the later it is.
      const isInTime = performance.now() - receivedAt <= kvLeaseMs / 2;
      const isFreed = isInTime && (await send(ctx, dependencies, body, signal));
      handoff.settle(isFreed ? 'released' : 'expired');
    });
    if (!isTaken) {
      ctx.log.info({}, 'no room to release a KV hand-off, its blocks wait for the lease');
      handoff.settle('expired');
    }
  };
}

/** Headers and ids are those of the request's decode leg; the client's signal does not end it. */
async function send(
  ctx: RequestContext,
  dependencies: StepDependencies,
  body: JsonRaw,
  signal: AbortSignal,
): Promise<boolean> {
  const { api } = ctx;
  try {
    const { status, headers } = await dependencies.gateway.call({
      path: apiPaths[api],
      headers: ctx.headers.forReading(ownHeaders(ctx, dependencies, 'decode', leg)),
      body,
      signal,
    });
    if (status === 200) return true;
    const isJson = /json/i.test(String(headers['content-type']));
    if (status >= 400 && fateAfterRefusal({ status, isJson, api }) === 'freed') return true;
    ctx.log.info({ status }, 'a KV hand-off could not be released, its blocks wait for the lease');
  } catch (error) {
    const cause = error instanceof Error ? error.message : undefined;
    ctx.log.info({ cause }, 'a KV hand-off could not be released, its blocks wait for the lease');
  }
  return false;
}

const pick = ({ api, media, tokenIds }: RequestContext) => ({ api, media, tokenIds });

function capped(ctx: RequestContext): RequestContext['body'] {
  const single = sequenceCount(ctx) > 1 ? { n: 1, best_of: undefined } : {};
  return ctx.body.with({ ...singleTokenCap[ctx.api], ...single });
}
