import { drawImage, type TestImage } from './images.ts';
import { chatOf } from './prompts.ts';
import { type Random } from './random.ts';

/** A request of one of the APIs. */
export interface Question {
  readonly path: string;
  readonly body: object;
}

const imageCount = 8;

/** Pictures that the questions are about; some come up often, as on a page that many ask about. */
export const drawImages = (): Promise<TestImage[]> =>
  Promise.all(Array.from({ length: imageCount }, (_, i) => drawImage(i)));

/** A request that nobody sent before, streamed or not. */
export function question(number: number, random: Random, images: readonly TestImage[]): Question {
  const text = `Question ${number} of the soak, with some words to fill more than one block of the cache.`;
  const stream = random.percent(50);
  const kind = random.below(100);
  if (kind < 35) return { path: '/v1/chat/completions', body: chatOf(text, { stream }) };
  if (kind < 60) {
    const at = random.below(images.length);
    const shown = images.slice(at, at + 1 + random.below(2));
    return { path: '/v1/chat/completions', body: chatOf(text, { images: shown, stream }) };
  }
  const model = 'sim/model';
  if (kind < 75) return { path: '/v1/completions', body: { model, prompt: text, stream } };
  if (kind < 85) return { path: '/v1/responses', body: { model, input: text, stream } };
  const ids = Array.from({ length: 40 }, (_, i) => 1000 + ((number * 40 + i) % 50_000));
  return {
    path: '/inference/v1/generate',
    body: { model, token_ids: ids, sampling_params: { max_tokens: 6 }, stream },
  };
}
