import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';

import { Body, Controller, Get, Headers, HttpCode, Post, Res } from '@nestjs/common';
import { RenderError, Renderer, writeAnswer } from '@llm-d/render';
import { type FastifyReply } from 'fastify';

/** The vLLM release whose answers this service reproduces. */
const VLLM_VERSION = '0.33.0';
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** vLLM's render API: bytes of an OpenAI request in, token ids and image features out. */
@Controller()
export class RenderController {
  /** Seconds; clients of OpenAI's API expect the field. */
  private readonly created = Math.floor(Date.now() / 1000);

  constructor(private readonly renderer: Renderer) {}

  @Post('/v1/chat/completions/render')
  async chat(
    @Body() body: Buffer,
    @Headers() headers: RequestHeaders,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    requireJson(headers);
    const prompt = await this.renderer.chat(body, { tensors: true });
    const requestId = `chatcmpl-${chooseId(headers, prompt.requestId)}`;
    await sendJson(reply, writeAnswer(prompt, { requestId, kwargsLists: wantsLists(headers) }));
  }

  @Post('/v1/completions/render')
  async completions(
    @Body() body: Buffer,
    @Headers() headers: RequestHeaders,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    requireJson(headers);
    const prompts = await this.renderer.completions(body);
    const id = `cmpl-${chooseId(headers, prompts[0]?.requestId)}`;
    const answers = prompts.flatMap((prompt, index) => [
      Buffer.from(index === 0 ? '[' : ','),
      ...writeAnswer(prompt, { requestId: prompts.length === 1 ? id : `${id}-${index}` }),
    ]);
    await sendJson(reply, [...answers, Buffer.from(']')]);
  }

  @Post('/v1/responses/render')
  async responses(
    @Body() body: Buffer,
    @Headers() headers: RequestHeaders,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    requireJson(headers);
    const prompt = await this.renderer.responses(body, { tensors: true });
    // This API takes its id from the body, never from a header.
    const requestId = prompt.requestId ?? `resp_${newId()}`;
    await sendJson(reply, writeAnswer(prompt, { requestId, kwargsLists: wantsLists(headers) }));
  }

  @Post('/v1/messages/render')
  messages(): never {
    throw notImplemented('/v1/messages/render');
  }

  @Post('/tokenize')
  async tokenize(
    @Body() body: Buffer,
    @Headers() headers: RequestHeaders,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    requireJson(headers);
    const { tokenIds, tokenStrings } = await this.renderer.tokenizeRequest(body);
    await sendText(
      reply,
      `{"count":${tokenIds.length},"max_model_len":${this.renderer.maxModelLen},"tokens":[${tokenIds.join(',')}],"token_strs":${JSON.stringify(tokenStrings ?? null)}}`,
    );
  }

  @Post('/detokenize')
  async detokenize(
    @Body() body: Buffer,
    @Headers() headers: RequestHeaders,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    requireJson(headers);
    const prompt = await this.renderer.detokenizeRequest(body);
    await sendText(reply, JSON.stringify({ prompt }));
  }

  @Get('/v1/models')
  models(): unknown {
    const { created, renderer } = this;
    return {
      object: 'list',
      data: renderer.modelIds.map((id) => ({
        id,
        object: 'model',
        created,
        owned_by: 'vllm',
        root: renderer.rootName,
        parent: null,
        max_model_len: renderer.maxModelLen,
        permission: [],
      })),
    };
  }

  @Get('/version')
  version(): { readonly version: string } {
    return { version: VLLM_VERSION };
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

/** Upstream takes no other content type, and says so with a 400. */
function requireJson(headers: RequestHeaders): void {
  const [type = ''] = String(headers['content-type'] ?? '').split(';', 1);
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new RenderError(
      400,
      'Bad Request',
      "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
    );
  }
}

/** Callers that compare list lengths ask for a list of nulls in place of a null `kwargs_data`. */
function wantsLists(headers: RequestHeaders): boolean {
  return headers['x-render-compat'] === 'lists';
}

/** The caller's id from its header, else from the body, else 16 hex digits. */
function chooseId(headers: RequestHeaders, fromBody: string | undefined): string {
  const given = headers['x-request-id'];
  if (typeof given === 'string' && REQUEST_ID.test(given)) return given;
  return fromBody ?? newId();
}

const newId = (): string => randomBytes(8).toString('hex');

async function sendText(reply: FastifyReply, text: string): Promise<void> {
  await sendJson(reply, [Buffer.from(text)]);
}

/** As bytes: Fastify would add a charset to a text, which vLLM does not send. */
async function sendJson(reply: FastifyReply, chunks: readonly Uint8Array[]): Promise<void> {
  const byteLength = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  await reply
    .code(200)
    .header('content-type', 'application/json')
    .header('content-length', byteLength)
    .header('x-render-mode', 'embedded')
    // Tensors go to the socket as they are; putting the answer together would copy them.
    .send(Readable.from(chunks, { objectMode: false }));
}

function notImplemented(route: string): RenderError {
  return new RenderError(
    501,
    'NotImplementedError',
    `${route} is not supported by the embedded renderer`,
  );
}
