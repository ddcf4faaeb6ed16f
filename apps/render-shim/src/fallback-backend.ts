import { RenderError } from '@llm-d/render';

import {
  type AnswerSink,
  type ModelBackend,
  type ModelCard,
  type ModelRequest,
} from './model-backend.ts';

/** Renders in this process, and asks vLLM for what only vLLM can do. */
export class FallbackBackend implements ModelBackend {
  readonly checksModel = true;
  private readonly embedded: ModelBackend;
  private readonly proxy: ModelBackend;

  constructor(embedded: ModelBackend, proxy: ModelBackend) {
    this.embedded = embedded;
    this.proxy = proxy;
  }

  get ids(): readonly string[] {
    return this.embedded.ids;
  }

  /** Most requests need no upstream. */
  get isReady(): boolean {
    return this.embedded.isReady;
  }

  cards(): readonly ModelCard[] {
    return this.embedded.cards();
  }

  async answer(request: ModelRequest, sink: AnswerSink): Promise<void> {
    try {
      await this.embedded.answer(request, sink);
    } catch (error) {
      if (!(error instanceof RenderError) || !error.isGap) throw error;
      await this.proxy.answer(request, sink);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.embedded.close(), this.proxy.close()]);
  }
}
