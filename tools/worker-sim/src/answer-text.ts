import { type InferenceInput } from './inference-input.ts';
import { type Tuning } from './options.ts';
import { type Prompt } from './prompt.ts';
import { seededRandom } from './random.ts';
import { type KvSource } from './request-log.ts';

/** One token of an answer. Only the tokens-in API shows ids; there `text` may be empty. */
export interface AnswerToken {
  text: string;
  id: number;
}

/** One sequence to send: its tokens, and why it ends. */
export interface Answer {
  tokens: AnswerToken[];
  finishReason: 'stop' | 'length' | 'tool_calls';
  /** The stop string that ended it. */
  stopReason: string | null;
  /** Set when the tokens are the arguments of a call of this tool. */
  tool?: string;
}

const wordsShown = 12;

/** Says in one sentence what really arrived, so that a person sees that the photo did. */
export function reportText(prompt: Prompt, kv: KvSource | undefined, promptText: string): string {
  const tokens = plural(prompt.tokenIds.length, 'prompt token');
  const images = prompt.images.map(({ size, hash, length }) =>
    size
      ? `${size.width}x${size.height}, hash ${hash.slice(0, 8)}…`
      : `${plural(length, 'token')}, hash ${hash.slice(0, 8)}…`,
  );
  const seen =
    images.length === 0 ? '' : ` and ${plural(images.length, 'image')}: ${images.join('; ')}`;
  const words = lastWords(promptText);
  const parts = [
    `I received ${tokens}${seen}`,
    ...(kv ? [kvText(kv)] : []),
    ...(words === '' ? [] : [`your last words: '${words}'`]),
  ];
  return `${parts.join('; ')}.`;
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

const kvText = ({ source, pod, blocks }: KvSource): string =>
  source === 'external'
    ? `KV pulled from ${pod ?? 'an unnamed pod'} (${plural(blocks, 'block')})`
    : 'KV computed here';

/** The end of what the user said, without template markers: `promptText` may be a tail of the prompt. */
export function lastWords(promptText: string): string {
  const turnEnd = promptText.lastIndexOf('<|im_end|>');
  const upToTurnEnd = turnEnd === -1 ? promptText : promptText.slice(0, turnEnd);
  const [, turn = upToTurnEnd] = /.*<\|im_start\|>user\n(.*)$/s.exec(upToTurnEnd) ?? [];
  const words = turn
    .replace(/<\|[^|]*\|>/g, ' ')
    .split(/\s+/)
    .filter((word) => word !== '');
  const shown = words.slice(-wordsShown).join(' ');
  return words.length > wordsShown ? `… ${shown}` : shown;
}

/** About one token per word, each with the blank before it; joined they are the text. Ids count up. */
export const splitWords = (text: string): AnswerToken[] =>
  (text.match(/\s*\S+/g) ?? []).map((word, id) => ({ text: word, id }));

const vocabulary = ['alpha', 'beta', 'gamma', 'delta', 'sigma', 'omega', 'kappa', 'lambda'];

/** The text a worker would say with no limit, by `SIM_MODE`. */
export function modeText(
  tuning: Pick<Tuning, 'mode' | 'script' | 'seed' | 'countTokens'>,
  report: string,
  promptText: string,
  tokens: number,
): string {
  switch (tuning.mode) {
    case 'report':
      return report;
    case 'echo':
      return lastWords(promptText);
    case 'script':
      return tuning.script;
    case 'count':
      return Array.from({ length: tokens }, (_, index) => `t${index}`).join(' ');
    case 'random': {
      const random = seededRandom(tuning.seed);
      const word = (): string => vocabulary[Math.floor(random() * vocabulary.length)] ?? 'alpha';
      return Array.from({ length: tokens }, word).join(' ');
    }
  }
}

/** Cuts a text to what the request allows. `room` is what the context length leaves. */
export async function planAnswer(
  text: string,
  input: Pick<InferenceInput, 'maxTokens' | 'minTokens' | 'ignoreEos' | 'stop'>,
  room: number,
  split: (text: string) => AnswerToken[] | Promise<AnswerToken[]>,
): Promise<Answer> {
  const limit = Math.min(input.maxTokens ?? room, room);
  const stop = firstStop(text, input.stop);
  const own = await split(stop ? text.slice(0, stop.at) : text);
  if (stop && own.length <= limit) {
    return { tokens: own, finishReason: 'stop', stopReason: stop.marker };
  }
  const wanted = input.ignoreEos ? limit : Math.max(own.length, input.minTokens);
  return {
    tokens: repeatTo(own, Math.min(wanted, limit)),
    finishReason: wanted >= limit ? 'length' : 'stop',
    stopReason: null,
  };
}

const firstStop = (
  text: string,
  markers: readonly string[],
): { marker: string; at: number } | undefined =>
  markers
    .map((marker) => ({ marker, at: text.indexOf(marker) }))
    .filter(({ at, marker }) => at !== -1 && marker !== '')
    .sort((left, right) => left.at - right.at)[0];

function repeatTo(tokens: readonly AnswerToken[], count: number): AnswerToken[] {
  const [first = { text: ' …', id: 0 }] = tokens;
  return Array.from({ length: count }, (_, index) => {
    const token = tokens[index % Math.max(1, tokens.length)] ?? first;
    // The first word has no blank of its own.
    return index > 0 && token === first && token.text !== ''
      ? { ...token, text: ` ${token.text.trimStart()}` }
      : token;
  });
}
