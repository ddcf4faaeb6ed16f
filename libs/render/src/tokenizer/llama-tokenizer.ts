import { z } from 'zod';

/** The blank of SentencePiece vocabularies. */
const BLANK = '\u2581';

const tokenizerFile = z.looseObject({
  normalizer: z.looseObject({ type: z.string() }).nullish(),
  pre_tokenizer: z.looseObject({ type: z.string() }).nullish(),
});

const prependsBlank = z.looseObject({
  type: z.literal('Sequence'),
  normalizers: z.tuple([
    z.looseObject({ type: z.literal('Prepend'), prepend: z.literal(BLANK) }),
    z.looseObject({ type: z.literal('Replace'), content: z.literal(BLANK) }),
  ]),
});

/**
 * A `tokenizer.json` as transformers 5 rebuilds it for the class `LlamaTokenizer`: a text that starts with a blank gets
 * no other in front, unlike in the file. Throws for a file of that class with another kind of vocabulary, from which
 * transformers drops parts that matter.
 */
export function rebuildLlamaTokenizer(text: string): string {
  const definition = tokenizerFile.parse(JSON.parse(text));
  const isKnown =
    prependsBlank.safeParse(definition.normalizer).success && definition.pre_tokenizer == null;
  if (!isKnown) {
    throw new Error(
      `vLLM rebuilds tokenizers of the class LlamaTokenizer in a way that this one is not known to survive; serve the model in proxy mode`,
    );
  }
  return JSON.stringify({
    ...definition,
    normalizer: null,
    pre_tokenizer: {
      type: 'Metaspace',
      replacement: BLANK,
      prepend_scheme: 'always',
      split: false,
    },
  });
}
