import { Body, Controller, Get, HttpCode, Inject, Post, Req, Res } from '@nestjs/common';
import { hasMedia, RenderError } from '@llm-d/render';
import { Lifecycle } from '@llm-d/service';
import { type FastifyReply, type FastifyRequest } from 'fastify';

import { modelRoutes, type ModelRoute } from './model-backend.ts';
import { ModelTable } from './model-table.ts';
import { RenderMetrics } from './render-metrics.ts';
import { callerGone, ReplySink } from './reply-sink.ts';

/** The vLLM release whose answers this service reproduces. */
const VLLM_VERSION = '0.33.0';
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

const routeOfPath = new Map<string, ModelRoute>(
  (Object.keys(modelRoutes) as ModelRoute[]).map((route) => [modelRoutes[route], route]),
);

/** How requests are taken. */
export interface EdgeSettings {
  /** Until the answer of a request starts. */
  readonly requestTimeoutMs: number;
  /** The same for requests with images, video or audio. */
  readonly mediaTimeoutMs: number;
  /** Name in lower case of the header whose values tell tenants apart; undefined where all share the caches. */
  readonly tenantHeader: string | undefined;
  /** Refuses other content types with 415 instead of vLLM's 400. */
  readonly strictHttp: boolean;
}

export const edgeSettings = Symbol('edgeSettings');

/** vLLM's render API: bytes of an OpenAI request in, token ids and image features out. */
@Controller()
export class RenderController {
  /** Seconds; clients of OpenAI's API expect the field. */
  private readonly created = Math.floor(Date.now() / 1000);

  constructor(
    private readonly models: ModelTable,
    private readonly metrics: RenderMetrics,
    private readonly lifecycle: Lifecycle,
    @Inject(edgeSettings) private readonly settings: EdgeSettings,
  ) {}

  @Post(Object.values(modelRoutes))
  async render(
    @Body() body: Buffer,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const route = routeOfPath.get(request.routeOptions.url ?? '') ?? 'chat';
    const sink = new ReplySink(request, reply);
    const measure = this.metrics.begin(route);
    const gone = callerGone(reply, this.lifecycle);
    const late = new AbortController();
    const { requestTimeoutMs, mediaTimeoutMs, tenantHeader } = this.settings;
    const timeoutMs = hasMedia(body) ? mediaTimeoutMs : requestTimeoutMs;
    const timer = setTimeout(() => {
      if (sink.status === 0) late.abort(tooLate(timeoutMs));
    }, timeoutMs);
    try {
      requireJson(request, this.settings.strictHttp);
      const backend = this.models.choose(body);
      measure.model = backend.ids[0] ?? '';
      const answered = backend.answer(
        {
          route,
          body,
          requestId: givenId(request),
          headers: request.headers,
          kwargsLists: request.headers['x-render-compat'] === 'lists',
          tenant: tenantHeader === undefined ? '' : String(request.headers[tenantHeader] ?? ''),
          signal: AbortSignal.any([gone, late.signal]),
          onRendered: measure.rendered,
        },
        sink,
      );
      // Native code cannot be stopped, but the caller need not wait for it.
      await Promise.race([answered, aborted(late.signal)]);
      measure.end(sink.status, sink.mode);
    } catch (error) {
      sink.close();
      measure.fail(error, gone.aborted, sink.mode);
      if (sink.status > 0 || gone.aborted) sink.cut();
      else throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  @Get('/v1/models')
  listModels(): unknown {
    const { created } = this;
    return {
      object: 'list',
      data: this.models.cards.map(({ id, root, maxModelLen }) => ({
        id,
        object: 'model',
        created,
        owned_by: 'vllm',
        root,
        parent: null,
        max_model_len: maxModelLen,
        permission: [
          {
            id: `modelperm-${id}`,
            object: 'model_permission',
            created,
            allow_create_engine: false,
            allow_sampling: true,
            allow_logprobs: true,
            allow_search_indices: false,
            allow_view: true,
            allow_fine_tuning: false,
            organization: '*',
            group: null,
            is_blocking: false,
          },
        ],
      })),
    };
  }

  @Get('/version')
  version(): { readonly version: string } {
    return { version: VLLM_VERSION };
  }

  /** Requests that are being answered. */
  @Get('/load')
  load(): { readonly server_load: number } {
    return { server_load: this.metrics.running };
  }

  @Get('/metrics')
  async scrape(@Res() reply: FastifyReply): Promise<void> {
    const { registry } = this.metrics;
    await reply.header('content-type', registry.contentType).send(await registry.metrics());
  }

  @Get('/ping')
  ping(): string {
    return '';
  }

  @Post('/ping')
  @HttpCode(200)
  postPing(): string {
    return '';
  }
}

function tooLate(timeoutMs: number): RenderError {
  return new RenderError(504, 'TimeoutError', `Rendering took longer than ${timeoutMs} ms.`);
}

/** Rejects with the signal's reason when it aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      // Aborted here and nowhere else, with an error.
      reject(signal.reason as RenderError);
    });
  });
}

/** Upstream takes no other content type, and says so with a 400. */
function requireJson(request: FastifyRequest, isStrict: boolean): void {
  const [type = ''] = String(request.headers['content-type'] ?? '').split(';', 1);
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new RenderError(
      isStrict ? 415 : 400,
      isStrict ? 'Unsupported Media Type' : 'Bad Request',
      "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
    );
  }
}

/** The caller's own request id, when it may stand in an answer. */
function givenId({ headers }: FastifyRequest): string | undefined {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : undefined;
}
