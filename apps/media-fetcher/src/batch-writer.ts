import { describeMedia } from './describe-media.ts';
import { frameHead, framesType } from './frames.ts';
import { itemJson } from './item-json.ts';
import { type ItemOutcome } from './media-calls.ts';
import { type ItemPlace, mediaProblem, overloaded } from './problem.ts';
import { type CallOptions } from './request-body.ts';

/** What a batch is written with. */
export interface BatchContext {
  /** The caller's names of the items. */
  readonly ids: readonly string[];
  readonly returned: CallOptions['return'];
  readonly requestId: string;
  /** Counts bytes that are kept until the caller has them; false when it is too much. */
  readonly hold: (bytes: number) => boolean;
}

const forms = {
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  frames: framesType,
} as const;

/** Writes the outcomes of a batch in one of its three forms, as the caller takes them. */
export class BatchWriter {
  readonly contentType: string;
  readonly #form: keyof typeof forms;
  readonly #context: BatchContext;

  constructor(form: keyof typeof forms, context: BatchContext) {
    this.#form = form;
    this.#context = context;
    this.contentType = forms[form];
  }

  /** Lines come as their items do, everything else in the order of the request. */
  async *write(outcomes: readonly Promise<ItemOutcome>[]): AsyncGenerator<Buffer> {
    switch (this.#form) {
      case 'frames':
        for (const outcome of outcomes) yield* this.#frame(this.#held(await outcome));
        return;
      case 'ndjson':
        for await (const outcome of inTurn(outcomes)) {
          yield* this.#json(this.#held(outcome));
          yield Buffer.from('\n');
        }
        return;
      case 'json': {
        let separator = '{"results":[';
        for (const outcome of outcomes) {
          const written = this.#json(this.#held(await outcome));
          yield Buffer.from(separator);
          yield* written;
          separator = ',';
        }
        yield Buffer.from(']}');
      }
    }
  }

  #place(index: number): ItemPlace {
    return { index, id: this.#context.ids[index] ?? String(index) };
  }

  /** An item that there is no room for is one that failed. */
  #held(outcome: ItemOutcome): ItemOutcome {
    if ('error' in outcome || this.#context.hold(outcome.item.media.byteLength)) return outcome;
    return { index: outcome.index, error: overloaded() };
  }

  #json(outcome: ItemOutcome): Buffer[] {
    const { returned, requestId } = this.#context;
    const place = this.#place(outcome.index);
    if ('error' in outcome) {
      const error = mediaProblem(outcome.error, requestId, place);
      return [Buffer.from(JSON.stringify({ id: place.id, ok: false, error }))];
    }
    const { item } = outcome;
    return itemJson(item, returned, { id: place.id, ok: true });
  }

  *#frame(outcome: ItemOutcome): Generator<Buffer> {
    const { requestId } = this.#context;
    const place = this.#place(outcome.index);
    if ('error' in outcome) {
      const error = mediaProblem(outcome.error, requestId, place);
      yield frameHead({ id: place.id, ok: false, byte_length: 0, error });
      return;
    }
    const { item } = outcome;
    yield frameHead({ id: place.id, ok: true, ...describeMedia(item) });
    if (item.media.byteLength > 0) yield item.media.bytes;
  }
}

/** Outcomes in the order in which they come. */
async function* inTurn(outcomes: readonly Promise<ItemOutcome>[]): AsyncGenerator<ItemOutcome> {
  const left = new Map(outcomes.entries());
  while (left.size > 0) {
    const outcome = await Promise.race(left.values());
    left.delete(outcome.index);
    yield outcome;
  }
}
