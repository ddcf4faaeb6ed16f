import { describeMedia } from './describe-media.ts';
import { frameHead, framesType } from './frames.ts';
import { itemJson } from './item-json.ts';
import { type ItemOutcome } from './media-calls.ts';
import { type ItemPlace, mediaProblem } from './problem.ts';
import { type CallOptions } from './request-body.ts';

/** What a batch is written with. */
export interface BatchContext {
  /** The caller's names of the items. */
  readonly ids: readonly string[];
  readonly returned: CallOptions['return'];
  readonly requestId: string;
  /** Counts bytes that are kept until the caller has them; throws when it is too much. */
  readonly hold: (bytes: number) => void;
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
        for (const outcome of outcomes) yield* this.#frame(await outcome);
        return;
      case 'ndjson':
        for await (const outcome of inTurn(outcomes)) {
          yield* this.#json(outcome);
          yield Buffer.from('\n');
        }
        return;
      case 'json': {
        let separator = '{"results":[';
        for (const outcome of outcomes) {
          const written = this.#json(await outcome);
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

  #json(outcome: ItemOutcome): Buffer[] {
    const { returned, requestId, hold } = this.#context;
    const place = this.#place(outcome.index);
    if ('error' in outcome) {
      const error = mediaProblem(outcome.error, requestId, place);
      return [Buffer.from(JSON.stringify({ id: place.id, ok: false, error }))];
    }
    const { item } = outcome;
    hold(item.media.byteLength);
    return itemJson(item, returned, { id: place.id, ok: true });
  }

  *#frame(outcome: ItemOutcome): Generator<Buffer> {
    const { requestId, hold } = this.#context;
    const place = this.#place(outcome.index);
    if ('error' in outcome) {
      const error = mediaProblem(outcome.error, requestId, place);
      yield frameHead({ id: place.id, ok: false, byte_length: 0, error });
      return;
    }
    const { item } = outcome;
    hold(item.media.byteLength);
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
