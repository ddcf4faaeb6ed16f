import { type RequestContext } from '@llm-d/pipeline';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, type Piece, type RecordedCall } from '@llm-d/testing';
import { type Rig } from '../testing.ts';

/** The members of a leg that these tests look at. */
export interface SentBody {
  readonly prompt: readonly number[];
  readonly request_id?: string;
  readonly kv_transfer_params?: { readonly remote_request_id?: string };
}

/** The id that the prompt of a leg begins with: it tells the prompts of a batch apart. */
export const firstId = (call: RecordedCall): number => (call.json() as SentBody).prompt[0] ?? -1;

/** A completion with one choice of each text. */
export const completion = (id: string, texts: readonly string[], promptTokens: number): object => ({
  id,
  object: 'text_completion',
  created: 1_795_984_048,
  model: 'm',
  choices: texts.map((text, index) => ({ index, text, logprobs: null, finish_reason: 'stop' })),
  usage: {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + texts.length,
    completion_tokens: texts.length,
    prompt_tokens_details: null,
  },
});

/** An answer that is sent piece by piece as an event stream. */
export const stream = (...chunks: Piece[]): Answer => ({
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  chunks,
});

/** One event of a streamed completion. */
export function event(id: string, index: number, text: string, more = ''): string {
  const choice = `{"index":${index},"text":"${text}","logprobs":null,"finish_reason":null}`;
  return `data: {"id":"${id}","object":"text_completion","created":17,"model":"m","choices":[${choice}]${more}}\n\n`;
}

/** The event with the token counts of one prompt. */
export const usageEvent = (id: string, prompt: number, completionTokens: number): string =>
  `data: {"id":"${id}","object":"text_completion","created":17,"model":"m","choices":[],"usage":{"prompt_tokens":${prompt},"total_tokens":${prompt + completionTokens},"completion_tokens":${completionTokens}}}\n\n`;

/** The end of a stream. */
export const done = 'data: [DONE]\n\n';

/** A sink that tells when something arrives. */
export class WatchedSink extends MemorySink {
  #arrival = Promise.withResolvers<void>();

  override write(chunk: Uint8Array): boolean {
    const isTaken = super.write(chunk);
    this.#arrival.resolve();
    this.#arrival = Promise.withResolvers();
    return isTaken;
  }

  async seen(text: string): Promise<void> {
    while (!this.text.includes(text)) await this.#arrival.promise;
  }

  /** The payloads of the events so far. */
  get events(): unknown[] {
    return this.text
      .split('\n\n')
      .filter((text) => text !== '')
      .map((text) => text.replace(/^data: /, ''))
      .map((data) => (data === '[DONE]' ? data : (JSON.parse(data) as unknown)));
  }
}

/** What a prefill worker answers, with the id that its prompt begins with. */
export const prefilled = (id: number): object => ({
  kv_transfer_params: {
    remote_block_ids: [[id]],
    remote_engine_id: 'e',
    remote_request_id: `r-${id}`,
    remote_host: '10.0.0.1',
    remote_port: 5600,
  },
});

/** Has the gateway answer prefill legs, and decode legs by the id that their prompt begins with. */
export function playBatch(rig: Rig, decode: (id: number, call: RecordedCall) => Answer): void {
  rig.gateway.play((call) => {
    const id = firstId(call);
    return call.headers['epp-profile']?.[0] === 'prefill'
      ? { json: prefilled(id) }
      : decode(id, call);
  });
}

/** A batch of completions and its run through prefill and decode under kv-nixl. */
export function startBatch(
  rig: Rig,
  body: Record<string, unknown>,
  options: {
    parallel?: number;
    overrides?: Parameters<Rig['pipeline']>[1];
    steps?: Parameters<Rig['pipeline']>[0];
    request?: Parameters<typeof requestContext>[0];
  } = {},
): { sink: WatchedSink; ctx: RequestContext; client: AbortController; done: Promise<void> } {
  const sink = new WatchedSink();
  const client = new AbortController();
  const kv = { kv_connector: 'kv-nixl' };
  const {
    steps = [
      { type: 'prefill', params: kv },
      { type: 'decode', params: kv },
    ],
    parallel = 8,
    overrides = {},
  } = options;
  const pipeline = rig.pipeline(steps, { maxBatchParallel: parallel, ...overrides });
  const ctx = requestContext({
    api: 'completions',
    body: JSON.stringify({ model: 'm', ...body }),
    signal: client.signal,
    sink,
    ...options.request,
  });
  return { sink, ctx, client, done: pipeline.run(ctx) };
}
