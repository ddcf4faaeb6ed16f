import { Readable } from 'node:stream';
import { Controller, Get, HttpCode, Inject, Param, Post, Req, Res } from '@nestjs/common';
import {
  MediaError,
  MediaFetcher,
  type MediaFetchOptions,
  type MediaRef,
  sniffType,
} from '@llm-d/media';
import { type Tracing } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { BatchWriter } from './batch-writer.ts';
import { describeMedia, type DigestedMedia, etagOf, matchesEtag } from './describe-media.ts';
import { framesType } from './frames.ts';
import { itemJson } from './item-json.ts';
import { type ItemOutcome, type MediaCall, MediaCalls } from './media-calls.ts';
import { mediaProblem, overloaded, type Problem, problemType } from './problem.ts';
import { type BatchBody, type CallOptions, readBatchBody, readFetchBody } from './request-body.ts';
import { RunningCalls } from './running-calls.ts';
import { tighten } from './tighten.ts';

/** Injects what a call may do at most. */
export const ceiling = Symbol('ceiling');
/** Injects what traces the requests, if anything does. */
export const requestTraces = Symbol('requestTraces');

const ndjsonType = 'application/x-ndjson';

/** Media by reference: one, several, or by digest out of the cache. */
@Controller('/v1/media')
export class MediaController {
  constructor(
    private readonly calls: MediaCalls,
    private readonly fetcher: MediaFetcher,
    private readonly running: RunningCalls,
    @Inject(ceiling) private readonly most: MediaFetchOptions,
    @Inject(requestTraces) private readonly tracing: Tracing | undefined,
  ) {}

  @Post('fetch')
  @HttpCode(200)
  async fetch(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const body = readFetchBody(request.body as Buffer);
    const call = this.call(request, reply, body.options, 1);
    await answering(request, reply, async () => {
      const [item] = await this.calls.all([body], call);
      if (!item) throw new Error('a fetch has one result');
      if (matchesEtag(body.if_none_match, item.digest)) {
        await reply.code(304).header('etag', etagOf(item.digest)).send();
      } else if (wantsBytes(request)) {
        reserve(request, item.media.byteLength);
        await sendBytes(reply, item);
      } else {
        const json = itemJson(item, body.options.return);
        reserve(request, item.media.byteLength + json.reduce((sum, part) => sum + part.length, 0));
        await sendChunks(reply, 'application/json', json);
      }
    });
  }

  @Post('batch')
  @HttpCode(200)
  async batch(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const body = readBatchBody(request.body as Buffer);
    const { items } = body;
    const call = this.call(request, reply, body.options, items.length);
    const writer = new BatchWriter(formOf(request), {
      ids: items.map(({ id }, index) => id ?? String(index)),
      returned: body.options.return,
      requestId: request.id,
      // A whole answer has its place before it begins: from then on it could only be cut.
      hold: (bytes) => body.fail_fast || hold(request, bytes),
    });
    await answering(
      request,
      reply,
      async () => {
        const outcomes = body.fail_fast
          ? await this.wholeBatch(items, call, request)
          : this.calls.each(items, call);
        await reply.type(writer.contentType).send(Readable.from(writer.write(outcomes)));
      },
      body,
    );
  }

  /** Fastify answers `HEAD` as `GET` without the body. */
  @Get('blobs/:digest')
  async blob(
    @Param('digest') digest: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const bytes = /^[0-9a-f]{64}$/.test(digest)
      ? await this.fetcher.cachedBytes(digest)
      : undefined;
    if (!bytes) {
      const error = new MediaError('media_not_cached', 'no media of this digest is cached');
      await sendProblem(reply, { ...mediaProblem(error, request.id), status: 404 });
      return;
    }
    void reply.header('etag', etagOf(digest));
    if (matchesEtag(request.headers['if-none-match'], digest)) await reply.code(304).send();
    else {
      await answering(request, reply, async () => {
        reserve(request, bytes.length);
        await rawAnswer(reply, sniffType(bytes) ?? 'application/octet-stream', digest).send(bytes);
      });
    }
  }

  private call(
    request: FastifyRequest,
    reply: FastifyReply,
    wanted: CallOptions,
    count: number,
  ): MediaCall {
    const options = tighten(this.most, wanted);
    const rounds = Math.ceil(count / options.maxConcurrentDownloads);
    const signal = this.running.watch(reply.raw, rounds * options.downloadTimeoutMs);
    const trace = this.tracing?.of(request.raw);
    trace?.identify(request.id, request.routeOptions.url);
    return { requestId: request.id, trace, options, signal };
  }

  private async wholeBatch(
    refs: readonly MediaRef[],
    call: MediaCall,
    request: FastifyRequest,
  ): Promise<Promise<ItemOutcome>[]> {
    const items = await this.calls.all(refs, call);
    reserve(
      request,
      items.reduce((sum, { media }) => sum + media.byteLength, 0),
    );
    return items.map((item, index) => Promise.resolve({ index, item }));
  }
}

/** Answers a failure of the media library as a problem; in a batch it names the item. */
async function answering(
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<void>,
  batch?: BatchBody,
): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    if (!(thrown instanceof MediaError)) throw thrown;
    if (reply.raw.destroyed) return;
    // The caller is there: its download was ended by the end of this process.
    const error =
      thrown.code === 'media_cancelled'
        ? new MediaError('media_overloaded', 'downloading media: shutting down')
        : thrown;
    const { index } = error;
    const id = index === undefined ? undefined : (batch?.items[index]?.id ?? String(index));
    const place = batch && index !== undefined && id !== undefined ? { index, id } : undefined;
    await sendProblem(reply, mediaProblem(error, request.id, place));
  }
}

/** Counts what an answer keeps in memory until its caller has it; false when it is too much. */
function hold({ ticket }: FastifyRequest, bytes: number): boolean {
  return ticket?.hold(ticket.bodyBytes + bytes) === undefined;
}

/** @throws MediaError `media_overloaded` when there is no memory for so many bytes. */
function reserve(request: FastifyRequest, bytes: number): void {
  if (!hold(request, bytes)) throw overloaded();
}

async function sendProblem(reply: FastifyReply, problem: Problem): Promise<void> {
  const { status, code } = problem;
  if (code === 'media_overloaded') void reply.header('retry-after', '1');
  await reply.code(status).type(problemType).send(JSON.stringify(problem));
}

async function sendBytes(reply: FastifyReply, item: DigestedMedia): Promise<void> {
  const meta = Buffer.from(JSON.stringify(describeMedia(item))).toString('base64url');
  await rawAnswer(reply, item.media.contentType, item.digest)
    .header('etag', etagOf(item.digest))
    .header('x-media-meta', meta)
    .send(item.media.bytes);
}

/** Bytes of strangers, in a way that no browser would run them. */
function rawAnswer(reply: FastifyReply, type: string, digest: string): FastifyReply {
  const base64 = Buffer.from(digest, 'hex').toString('base64');
  return reply
    .header('content-type', type)
    .header('repr-digest', `sha-256=:${base64}:`)
    .header('content-disposition', 'attachment')
    .header('content-security-policy', "default-src 'none'; sandbox")
    .header('cross-origin-resource-policy', 'same-origin');
}

async function sendChunks(
  reply: FastifyReply,
  type: string,
  chunks: readonly Buffer[],
): Promise<void> {
  const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  await reply
    .header('content-type', type)
    .header('content-length', length)
    .send(Readable.from(chunks, { objectMode: false }));
}

/** Raw bytes are asked for by their general type or by one of media. */
function wantsBytes({ headers }: FastifyRequest): boolean {
  return /(?:^|[,\s])(?:application\/octet-stream|(?:image|video|audio)\/)/i.test(
    headers.accept ?? '',
  );
}

function formOf({ headers }: FastifyRequest): 'json' | 'ndjson' | 'frames' {
  const accept = headers.accept?.toLowerCase() ?? '';
  if (accept.includes(framesType)) return 'frames';
  return accept.includes(ndjsonType) ? 'ndjson' : 'json';
}
