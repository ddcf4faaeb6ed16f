import { type TestImage } from '@llm-d/soak';
import { render } from './render.ts';

/** The least and the most tokens that the client asks for: more than a worker would say by itself. */
export const [minTokens, maxTokens] = [220, 250];

/** One cell of the matrix. */
export interface MatrixCase {
  readonly api: keyof typeof paths;
  /** Positions of the pictures among those that were drawn; a number twice is the same picture twice. */
  readonly images: readonly number[];
  readonly isStreamed: boolean;
}

/** Path of each API. */
export const paths = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  generate: '/inference/v1/generate',
} as const;

/** What a client sends, and what the workers must have received. */
export interface MatrixRequest {
  readonly path: string;
  readonly body: object;
  readonly promptTokens: number;
  /** In the order of the prompt, as a worker that got them reports them. */
  readonly images: readonly { readonly hash: string; readonly report: string }[];
  /** How the prompt ends. */
  readonly lastWords: string;
}

const lastWords = 'in a few words what you see and hear and read here';

/** Long enough for several KV blocks; the name makes it a prompt that nobody has cached. */
const prompt = (name: string): string =>
  `Request ${name}. ${'The harbour lies quiet, the boats are tied up, the lamps are lit. '.repeat(3)}${lastWords}`;

/** Builds the request of a case. `name` must be new, and so must the pictures. */
export async function matrixRequest(
  { api, isStreamed }: MatrixCase,
  name: string,
  pictures: readonly TestImage[],
  renderUrl: string,
): Promise<MatrixRequest> {
  const model = 'sim/model';
  const limits = { max_tokens: maxTokens, min_tokens: minTokens };
  const delivery = isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
  const text = prompt(name);
  if (api === 'completions') {
    const body = { model, prompt: text, ...limits, ...delivery };
    const { token_ids: ids } = await render(renderUrl, paths.completions, { model, prompt: text });
    return { path: paths.completions, body, promptTokens: ids.length, images: [], lastWords };
  }
  const parts = pictures.map(({ uri }) => ({ type: 'image_url', image_url: { url: uri } }));
  const chat = {
    model,
    messages: [{ role: 'user', content: [...parts, { type: 'text', text }] }],
  };
  const { token_ids: ids, features } = await render(renderUrl, paths.chat, chat);
  const hashes = features?.mm_hashes.image ?? [];
  const placeholders = features?.mm_placeholders.image ?? [];
  const images = hashes.map((hash, i) => {
    const { width, height } = pictures[i] ?? {};
    // Only a worker that got the picture itself knows its size in pixels.
    const size = api === 'chat' ? `${width}x${height}` : `${placeholders[i]?.length} tokens`;
    return { hash, report: `${size}, hash ${hash.slice(0, 8)}…` };
  });
  const tokensIn = {
    model,
    token_ids: ids,
    sampling_params: limits,
    ...(features && {
      features: {
        mm_hashes: features.mm_hashes,
        mm_placeholders: features.mm_placeholders,
        kwargs_data: features.kwargs_data,
      },
    }),
  };
  const body = api === 'chat' ? { ...chat, ...limits } : tokensIn;
  return {
    path: paths[api],
    body: { ...body, ...delivery },
    promptTokens: ids.length,
    images,
    lastWords,
  };
}

/** The beginning of what a worker says that got this request and pulled its KV. */
export function expectedReport(
  { promptTokens, images, lastWords: words }: MatrixRequest,
  kv: { readonly pod: string; readonly blocks: number },
): string {
  const count = images.length === 1 ? '1 image' : `${images.length} images`;
  const seen =
    images.length === 0 ? '' : ` and ${count}: ${images.map(({ report }) => report).join('; ')}`;
  return (
    `I received ${promptTokens} prompt tokens${seen}; ` +
    `KV pulled from ${kv.pod} (${kv.blocks} blocks); your last words: '… ${words}'.`
  );
}
