import { type JsonInput } from '@llm-d/json-document';
import { type MediaEntry } from '@llm-d/pipeline';

/**
 * The `features` object of tokens-in bodies and of the `tokens` object: hashes, placeholders and, where asked for, the
 * preprocessed tensors. A tensor that is not there is null, which workers read as "in your cache".
 */
export function features(
  entries: readonly MediaEntry[],
  options: { hasKwargs: boolean; offset?: number },
): JsonInput | undefined {
  if (entries.length === 0) return undefined;
  const lists: { [key: string]: JsonInput } = {
    mm_hashes: { image: entries.map(({ hash }) => hash ?? null) },
    mm_placeholders: {
      image: entries.map(({ placeholder }) => ({
        offset: options.offset ?? placeholder?.offset ?? 0,
        length: placeholder?.length ?? 0,
      })),
    },
  };
  if (options.hasKwargs) lists['kwargs_data'] = { image: entries.map((e) => e.kwargsData ?? null) };
  return lists;
}
