import { chatBody, prose, tokenIds } from './bodies.ts';

/** One kind of request, the answers that the stub gives to its legs, and how it is timed. */
export interface CascadeCase {
  readonly name: string;
  readonly body: Buffer;
  readonly images: number;
  readonly answers: LegAnswers;
  /** Requests of one round. */
  readonly requests: number;
  /** Requests at the same time. */
  readonly parallel: number;
  /** Highest ratio to the bare cascade that issue #4 allows. */
  readonly target: number;
  /** Highest ratio that issue #3 allows, before there were metrics and traces; measured without log lines too. */
  readonly quietTarget?: number;
  /** Time between two chunks of a stream; without it they would meet in one read, which tokens of a worker do not. */
  readonly chunkMs?: number;
}

/** Prebuilt answers by leg. */
export interface LegAnswers {
  readonly render: Buffer;
  /** One for each image, in no order: a leg of the same request gets the next one. */
  readonly encode: readonly Buffer[];
  readonly prefill: Buffer;
  /** Chunks that are written one by one; an answer of several is an event stream. */
  readonly decode: readonly Buffer[];
}

/** What a case is made of. */
export interface CaseOptions {
  readonly promptBytes: number;
  readonly tokens: number;
  /** Lengths of the images as base64. */
  readonly images?: readonly number[];
  /** Events of a streamed answer; without it the answer is one object. */
  readonly events?: number;
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Tokens of one KV block. */
const blockTokens = 16;
const imageTokens = 300;

/** Builds the request and the answers to its legs, all of one size. */
export function makeCase(
  { promptBytes, tokens, images = [], events }: CaseOptions,
  timing: Omit<CascadeCase, 'body' | 'images' | 'answers'>,
): CascadeCase {
  const hashes = images.map((_, i) => String(i).repeat(64));
  const head = { model: 'bench', stream: events !== undefined, max_tokens: 200 };
  const placeholders = hashes.map((_, i) => ({
    offset: 10 + i * imageTokens,
    length: imageTokens,
  }));
  return {
    ...timing,
    body: chatBody(head, prose(promptBytes), images),
    images: images.length,
    answers: {
      render: json({
        request_id: 'chatcmpl-1',
        token_ids: tokenIds(tokens),
        features:
          images.length > 0
            ? {
                mm_hashes: { image: hashes },
                mm_placeholders: { image: placeholders },
                kwargs_data: { image: hashes.map(() => null) },
              }
            : null,
      }),
      encode: hashes.map((hash) => workerAnswer({ ec_transfer_params: ecParams(hash) })),
      prefill: workerAnswer({ kv_transfer_params: kvParams(Math.ceil(tokens / blockTokens)) }),
      decode: events === undefined ? [workerAnswer({})] : eventStream(events),
    },
  };
}

const workerAnswer = (params: object): Buffer =>
  json({
    ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1_700_000_000, model: 'bench' },
    choices: [
      { index: 0, message: { role: 'assistant', content: 'Blocks.' }, finish_reason: 'length' },
    ],
    usage: { prompt_tokens: 400, total_tokens: 401, completion_tokens: 1 },
    ...params,
  });

const ecParams = (hash: string): object => ({
  [hash]: { peer_host: '10.0.0.7', peer_port: 14_579, size_bytes: 2_457_600, nixl_agent: 'enc-0' },
});

const kvParams = (blocks: number): object => ({
  ...{ do_remote_prefill: true, do_remote_decode: false, tp_size: 1 },
  remote_block_ids: [Array.from({ length: blocks }, (_, i) => 4096 + i)],
  remote_engine_id: '6f1c2a74-8a5e-4d0e-9a2f-3f3c8f6a5b11',
  remote_request_id: 'chatcmpl-1',
  remote_host: '10.0.0.8',
  remote_port: 5600,
});

function eventStream(events: number): Buffer[] {
  const chunks = Array.from({ length: events - 1 }, (_, i) => {
    const delta = { content: ` token${i}` };
    const event = { id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'bench' };
    return `data: ${JSON.stringify({ ...event, choices: [{ index: 0, delta }] })}\n\n`;
  });
  return [...chunks, 'data: [DONE]\n\n'].map((text) => Buffer.from(text));
}

const kb = 1024;

/** The five cases of issues #3 and #4. */
export const cascadeCases = (): [CascadeCase, ...CascadeCase[]] => [
  makeCase(
    { promptBytes: 2 * kb, tokens: 400 },
    { name: 'text, 2 KB', requests: 2400, parallel: 8, target: 1.5, quietTarget: 1.6 },
  ),
  makeCase(
    { promptBytes: 132 * kb, tokens: 30_000 },
    { name: 'prompt, 132 KB', requests: 400, parallel: 4, target: 1.3, quietTarget: 1.5 },
  ),
  makeCase(
    { promptBytes: 200, tokens: 400, images: [100 * kb] },
    { name: 'one image, 100 KB', requests: 1600, parallel: 4, target: 1.2, quietTarget: 1.3 },
  ),
  makeCase(
    { promptBytes: 200, tokens: 1300, images: Array<number>(4).fill(700 * kb) },
    { name: 'four images, 700 KB', requests: 100, parallel: 2, target: 1.2, quietTarget: 1.3 },
  ),
  makeCase(
    { promptBytes: 2 * kb, tokens: 400, events: 200 },
    { name: 'stream, 200 chunks', requests: 160, parallel: 16, target: 1.2, quietTarget: 1.3 },
  ),
];
