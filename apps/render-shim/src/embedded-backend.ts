import { randomBytes } from 'node:crypto';

import {
  notImplemented,
  type RenderedPrompt,
  RenderNotes,
  type Renderer,
  writeAnswer,
} from '@llm-d/render';

import {
  type AnswerSink,
  type ModelBackend,
  type ModelCard,
  modelRoutes,
  type ModelRequest,
} from './model-backend.ts';

const newId = (): string => randomBytes(8).toString('hex');

/** An answer, and the prompts in it with their tensors. */
interface Rendered {
  readonly chunks: readonly Uint8Array[];
  readonly prompts: readonly RenderedPrompt[];
}

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
    const notes = new RenderNotes();
    const { chunks, prompts } = await this.render(request, notes);
    request.onRendered(notes, prompts);
    const byteLength = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
    sink.start(200, [
      ...['content-type', 'application/json', 'content-length', String(byteLength)],
      ...['x-render-mode', 'embedded', 'x-render-cache', notes.cache],
      ...(notes.serverTiming === '' ? [] : ['server-timing', notes.serverTiming]),
    ]);
    // Tensors go to the socket as they are; putting the answer together would copy them.
    for (const chunk of chunks) sink.write(chunk);
    sink.end();
    if (await sink.sent()) for (const prompt of prompts) this.renderer.recycle(prompt);
  }

  async close(): Promise<void> {
    await this.renderer.close();
  }

  private async render(request: ModelRequest, notes: RenderNotes): Promise<Rendered> {
    const { body, kwargsLists, signal, tenant } = request;
    const caller = { signal, notes, tenant };
    const { renderer } = this;
    switch (request.route) {
      case 'chat': {
        const prompt = await renderer.chat(body, { ...caller, tensors: true });
        const requestId = `chatcmpl-${request.requestId ?? prompt.requestId ?? newId()}`;
        return { chunks: writeAnswer(prompt, { requestId, kwargsLists }), prompts: [prompt] };
      }
      case 'completions': {
        const prompts = await renderer.completions(body, caller);
        const id = `cmpl-${request.requestId ?? prompts[0]?.requestId ?? newId()}`;
        const answers = prompts.flatMap((prompt, index) => [
          Buffer.from(index === 0 ? '[' : ','),
          ...writeAnswer(prompt, { requestId: prompts.length === 1 ? id : `${id}-${index}` }),
        ]);
        return { chunks: [...answers, Buffer.from(']')], prompts };
      }
      case 'responses': {
        const prompt = await renderer.responses(body, { ...caller, tensors: true });
        // This API takes its id from the body, never from a header.
        const requestId = prompt.requestId ?? `resp_${newId()}`;
        return { chunks: writeAnswer(prompt, { requestId, kwargsLists }), prompts: [prompt] };
      }
      case 'tokenize': {
        const { tokenIds, tokenStrings } = await renderer.tokenizeRequest(body, caller);
        const text = `{"count":${tokenIds.length},"max_model_len":${renderer.maxModelLen},"tokens":[${tokenIds.join(',')}],"token_strs":${JSON.stringify(tokenStrings ?? null)}}`;
        return { chunks: [Buffer.from(text)], prompts: [] };
      }
      case 'detokenize': {
        const prompt = await renderer.detokenizeRequest(body);
        return { chunks: [Buffer.from(JSON.stringify({ prompt }))], prompts: [] };
      }
      case 'messages':
        throw notImplemented(modelRoutes.messages);
    }
  }
}
