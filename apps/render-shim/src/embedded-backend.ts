import { randomBytes } from 'node:crypto';

import { notImplemented, type Renderer, writeAnswer } from '@llm-d/render';

import {
  type AnswerSink,
  type ModelBackend,
  type ModelCard,
  modelRoutes,
  type ModelRequest,
} from './model-backend.ts';

const newId = (): string => randomBytes(8).toString('hex');

/** Renders in this process. */
export class EmbeddedBackend implements ModelBackend {
  readonly checksModel = true;
  private readonly renderer: Renderer;

  constructor(renderer: Renderer) {
    this.renderer = renderer;
  }

  get ids(): readonly string[] {
    return this.renderer.modelIds;
  }

  /** A renderer that exists has loaded everything. */
  get isReady(): boolean {
    return true;
  }

  cards(): ModelCard[] {
    const { modelIds, rootName: root, maxModelLen } = this.renderer;
    return modelIds.map((id) => ({ id, root, maxModelLen }));
  }

  async answer(request: ModelRequest, sink: AnswerSink): Promise<void> {
    const chunks = await this.render(request);
    const byteLength = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
    sink.start(200, [
      ...['content-type', 'application/json', 'content-length', String(byteLength)],
      ...['x-render-mode', 'embedded'],
    ]);
    // Tensors go to the socket as they are; putting the answer together would copy them.
    for (const chunk of chunks) sink.write(chunk);
    sink.end();
  }

  async close(): Promise<void> {
    await this.renderer.close();
  }

  private async render(request: ModelRequest): Promise<Uint8Array[]> {
    const { body, kwargsLists, signal } = request;
    const { renderer } = this;
    switch (request.route) {
      case 'chat': {
        const prompt = await renderer.chat(body, { tensors: true, signal });
        const requestId = `chatcmpl-${request.requestId ?? prompt.requestId ?? newId()}`;
        return writeAnswer(prompt, { requestId, kwargsLists });
      }
      case 'completions': {
        const prompts = await renderer.completions(body, { signal });
        const id = `cmpl-${request.requestId ?? prompts[0]?.requestId ?? newId()}`;
        const answers = prompts.flatMap((prompt, index) => [
          Buffer.from(index === 0 ? '[' : ','),
          ...writeAnswer(prompt, { requestId: prompts.length === 1 ? id : `${id}-${index}` }),
        ]);
        return [...answers, Buffer.from(']')];
      }
      case 'responses': {
        const prompt = await renderer.responses(body, { tensors: true, signal });
        // This API takes its id from the body, never from a header.
        const requestId = prompt.requestId ?? `resp_${newId()}`;
        return writeAnswer(prompt, { requestId, kwargsLists });
      }
      case 'tokenize': {
        const { tokenIds, tokenStrings } = await renderer.tokenizeRequest(body, { signal });
        return [
          Buffer.from(
            `{"count":${tokenIds.length},"max_model_len":${renderer.maxModelLen},"tokens":[${tokenIds.join(',')}],"token_strs":${JSON.stringify(tokenStrings ?? null)}}`,
          ),
        ];
      }
      case 'detokenize':
        return [Buffer.from(JSON.stringify({ prompt: await renderer.detokenizeRequest(body) }))];
      case 'messages':
        throw notImplemented(modelRoutes.messages);
    }
  }
}
