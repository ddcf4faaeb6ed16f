import { parentPort, workerData } from 'node:worker_threads';

import { Tokenizer } from '@huggingface/tokenizers';

import { type ScriptReply, type ScriptRequest } from './script-engine.ts';

const definition: unknown = JSON.parse(String(workerData));
if (typeof definition !== 'object' || definition === null) throw new Error('not a tokenizer.json');
const tokenizer = new Tokenizer(definition, {});

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
