import { decodeContent } from '@llm-d/gateway';
import { editObject, type JsonSpan } from '@llm-d/json-document';
import { BadUpstreamAnswerError, type ResponseSink } from '@llm-d/pipeline';
import { batchHeaders, headerValue } from './headers.ts';
import { PromptAnswer, type HeldBytes, maxBatchBytes } from './prompt-answer.ts';
import { placeChoices } from './place-choices.ts';
import { readJson } from './read-json.ts';
import { readUsage, totalUsage } from './sum-usage.ts';

/** The completion that answers one prompt. */
class WholeAnswer extends PromptAnswer {
  #read: { root: JsonSpan; choices: JsonSpan } | undefined;

  /** @throws BadUpstreamAnswerError unless the answer is a completion. */
  async settle(): Promise<void> {
    const encoding = headerValue(this.headers, 'content-encoding');
    const root = readJson(await decodeContent(this.body, encoding, maxBatchBytes));
    const choices = root?.get('choices');
    if (root && choices?.kind === 'array') this.#read = { root, choices };
    else throw new BadUpstreamAnswerError('decode', 'the answer is not a completion');
  }

  get completion(): { root: JsonSpan; choices: JsonSpan } {
    if (!this.#read) throw new Error('the answer is not settled');
    return this.#read;
  }
}

/** Makes one completion of the completions of all prompts. */
export class WholeBatch {
  readonly #sink: ResponseSink;
  readonly #samples: number;
  readonly #heldBytes: HeldBytes;
  readonly #answers: WholeAnswer[] = [];

  /** `samples` is how many choices each prompt gets. */
  constructor(sink: ResponseSink, samples: number, heldBytes: HeldBytes) {
    this.#sink = sink;
    this.#samples = samples;
    this.#heldBytes = heldBytes;
  }

  answerTo(index: number): WholeAnswer {
    return (this.#answers[index] = new WholeAnswer(this.#heldBytes));
  }

  /** Sends the completion: everything but choices and usage is that of the first prompt. Returns what was sent. */
  finish(): readonly Uint8Array[] {
    const [first] = this.#answers;
    if (!first) throw new Error('a batch has at least one prompt');
    const completions = this.#answers.map(({ completion }) => completion);
    const whole = editObject(first.completion.root, {
      choices: completions.flatMap(({ choices }, i) => placeChoices(choices, i * this.#samples)),
      usage: totalUsage(completions.map(({ root }) => readUsage(root.get('usage')))),
    });
    const length = ['content-length', String(whole.byteLength)];
    this.#sink.start(first.status, [...batchHeaders(first.headers), ...length]);
    for (const chunk of whole.chunks) this.#sink.write(chunk);
    this.#sink.end();
    return whole.chunks;
  }
}
