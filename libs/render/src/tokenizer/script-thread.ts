import { parentPort, workerData } from 'node:worker_threads';

import { Tokenizer } from '@huggingface/tokenizers';

import { type ScriptReply, type ScriptRequest } from './script-engine.ts';

/** The part of the library that is used: its declarations do not resolve under nodenext. */
interface ScriptTokenizer {
  encode(text: string, options: { readonly add_special_tokens: boolean }): { ids: number[] };
  decode(
    ids: number[],
    options: {
      readonly skip_special_tokens: boolean;
      readonly clean_up_tokenization_spaces: boolean;
    },
  ): string;
  id_to_token(id: number): string | undefined;
  get_vocab(withAddedTokens: boolean): Map<string, number>;
}

const library: unknown = Tokenizer;
const tokenizer = new (library as new (definition: unknown, config: object) => ScriptTokenizer)(
  JSON.parse(String(workerData)),
  {},
);

parentPort?.on('message', (request: ScriptRequest) => {
  parentPort?.postMessage(answer(request));
});
parentPort?.postMessage('ready');

function answer(request: ScriptRequest): ScriptReply {
  switch (request.kind) {
    case 'encode': {
      const { ids } = tokenizer.encode(request.text, {
        add_special_tokens: request.addSpecialTokens,
      });
      return { ids: Uint32Array.from(ids) };
    }
    case 'decode': {
      const text = tokenizer.decode(request.ids, {
        skip_special_tokens: false,
        clean_up_tokenization_spaces: false,
      });
      return { text };
    }
    case 'spellings':
      return { spellings: request.ids.map((id) => tokenizer.id_to_token(id) ?? null) };
    case 'size':
      return { size: Math.max(...tokenizer.get_vocab(true).values()) + 1 };
  }
}
