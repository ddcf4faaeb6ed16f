import { Renderer } from '@llm-d/render';

/** Chat template and tokenizer of a worker: the code that render-shim serves, so that ids and hashes agree. */
export type PromptReader = Pick<
  Renderer,
  'chat' | 'completions' | 'responses' | 'tokenize' | 'detokenize'
>;

const loaded = new Map<string, Promise<PromptReader>>();

/**
 * The renderer of this process for these served names, loaded at the first use: a tokenizer costs time
 * and memory, and tokens-in traffic in count mode needs none.
 */
export function loadReader(names: readonly string[], directory?: string): Promise<PromptReader> {
  const key = JSON.stringify([names, directory]);
  const known = loaded.get(key);
  if (known) return known;
  const reader = Renderer.load({
    servedModelNames: names,
    ...(directory === undefined ? {} : { directory }),
  });
  loaded.set(key, reader);
  return reader;
}
