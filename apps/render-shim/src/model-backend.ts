import { type RenderedPrompt, type RenderNotes } from '@llm-d/render';

/** The routes that a model answers; each is a POST with a JSON body. */
export const modelRoutes = {
  chat: '/v1/chat/completions/render',
  completions: '/v1/completions/render',
  responses: '/v1/responses/render',
  messages: '/v1/messages/render',
  tokenize: '/tokenize',
  detokenize: '/detokenize',
} as const;

export type ModelRoute = keyof typeof modelRoutes;

/** A request for one model, as the edge read it. */
export interface ModelRequest {
  readonly route: ModelRoute;
  readonly body: Buffer;
  /** The caller's valid `x-request-id`. */
  readonly requestId: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Writes a list of nulls in place of a null `kwargs_data`, for callers that compare list lengths. */
  readonly kwargsLists: boolean;
  /** Value of the header that tells tenants apart; empty without one. */
  readonly tenant: string;
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal;
  /** Is called with what was rendered in this process, before its answer starts. */
  readonly onRendered: (notes: RenderNotes, prompts: readonly RenderedPrompt[]) => void;
}

/** Where an answer goes; nothing is sent before `start`. */
export interface AnswerSink {
  /** Headers besides those that the edge adds itself, names and values in turn. */
  start(status: number, headers: readonly string[]): void;
  /** False when the caller takes its time: hold back until `onDrain`. */
  write(chunk: Uint8Array): boolean;
  onDrain(callback: () => void): void;
  end(): void;
  /** True once all that was written is with the caller's connection; false when it broke before. */
  sent(): Promise<boolean>;
}

/** A name in `/v1/models`. */
export interface ModelCard {
  readonly id: string;
  /** Name that enters image hashes. */
  readonly root: string;
  readonly maxModelLen: number | null;
}

/** One model entry of the configuration. */
export interface ModelBackend {
  /** Served names, the main one first. */
  readonly ids: readonly string[];
  /** True when `answer` refuses names that are not its own, in vLLM's order of checks. */
  readonly checksModel: boolean;
  cards(): readonly ModelCard[];
  /** Answers a request. Rejects with a `RenderError` while nothing is sent; later it cuts the answer. */
  answer(request: ModelRequest, sink: AnswerSink): Promise<void>;
  /** False while it cannot answer at all. */
  readonly isReady: boolean;
  close(): Promise<void>;
}
