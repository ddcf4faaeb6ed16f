import {
  type MediaContent,
  type MediaLimits,
  type MediaReference,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { MediaFetcherUnreachable, RemoteMedia } from './remote-media.ts';

const idleConnectionMs = 30_000;

/** Where media is downloaded. */
export interface DownloadPlace {
  readonly mode: 'local' | 'remote';
  readonly address?: string | undefined;
  readonly token: string;
  /** What happens when nobody is at the address. */
  readonly fallback: 'fail' | 'local';
  /** In milliseconds. */
  readonly connect_timeout: number;
}

/** Downloads the media of requests. */
export interface Downloads {
  /** In order of the references; `inlineBytes` count towards the request's total. */
  fetch(
    references: readonly MediaReference[],
    limits: MediaLimits,
    ctx: RequestContext,
    inlineBytes: number,
  ): Promise<readonly MediaContent[]>;
  /** Rejects with the fault of the first URL that its text makes one that may not be asked; downloads nothing. */
  check(
    references: readonly MediaReference[],
    limits: MediaLimits,
    ctx: RequestContext,
  ): Promise<void>;
}

/** Downloads in this process, or by a media fetcher. @throws Error for the operator when that has no address. */
export function downloads(
  step: string,
  place: DownloadPlace,
  { media, openUpstream }: Pick<StepDependencies, 'media' | 'openUpstream'>,
): Downloads {
  const here: Downloads = {
    fetch: (references, limits, ctx, inlineBytes) =>
      media.fetchMany(references, limits, ctx, inlineBytes),
    // eslint-disable-next-line @typescript-eslint/require-await -- its faults are rejections
    check: async (references, limits) => media.checkUrls(references, limits),
  };
  if (place.mode === 'local') return here;
  const { address, token, fallback } = place;
  if (address === undefined) {
    throw new Error('address: expected the address of a media fetcher with mode: remote');
  }
  const client = openUpstream({
    address,
    connectTimeoutMs: place.connect_timeout,
    // The deadline of a call depends on how much it asks for.
    ...{ headersTimeoutMs: 0, bodyTimeoutMs: 0, callTimeoutMs: 0 },
    idleTimeoutMs: idleConnectionMs,
    // For answers that are read whole; here they are read while they arrive, within limits of their own.
    maxAnswerBytes: 0,
  });
  const remote = new RemoteMedia({ step, client, token, media });
  return {
    async fetch(references, limits, ctx, inlineBytes) {
      if (references.length === 0) return here.fetch(references, limits, ctx, inlineBytes);
      try {
        return await remote.fetchMany(references, limits, ctx, inlineBytes);
      } catch (error) {
        if (!(error instanceof MediaFetcherUnreachable)) throw error;
        if (fallback === 'fail') throw error.cause;
        ctx.log.warn({ step }, 'no media fetcher is there, media is downloaded here');
        return here.fetch(references, limits, ctx, inlineBytes);
      }
    },
    check: (references, limits, ctx) => remote.check(references, limits, ctx),
  };
}
