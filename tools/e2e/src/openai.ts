import { type Answer, eventsOf } from './ask.ts';

/** What these tests read of an answer or of one event; all three APIs fit. */
export interface Completion {
  readonly choices: readonly {
    readonly message?: { readonly content: string | null };
    readonly delta?: { readonly content?: string };
    readonly text?: string;
    readonly token_ids?: readonly number[] | null;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}

/** An OpenAI error with the fields that the coordinator adds. */
export interface ApiError {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
    readonly step?: string;
    readonly request_id?: string;
  };
}

/** A whole answer, put together from its events when it was streamed. */
export interface Said {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly usage: NonNullable<Completion['usage']>;
  readonly finishReasons: readonly string[];
}

/** The body of a whole answer; the caller knows its shape. @throws SyntaxError unless it is JSON. */
export const jsonOf = <T>({ body }: Pick<Answer, 'body'>): T =>
  JSON.parse(body.toString('utf8')) as T;

/** The events of a stream as objects, without `[DONE]`. */
export const chunksOf = (answer: Pick<Answer, 'body'>): Completion[] =>
  eventsOf(answer)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data) as Completion);

/** Reads what a worker said. @throws Error when the answer has no usage. */
export function saidIn(answer: Answer, isStreamed: boolean): Said {
  const parts = isStreamed ? chunksOf(answer) : [jsonOf<Completion>(answer)];
  const choices = parts.flatMap((part) => part.choices);
  const usage = parts.findLast((part) => part.usage)?.usage;
  if (!usage) throw new Error(`no usage in ${answer.body.toString('utf8').slice(-500)}`);
  return {
    text: choices
      .map(({ message, delta, text }) => message?.content ?? delta?.content ?? text ?? '')
      .join(''),
    tokenIds: choices.flatMap(({ token_ids: ids }) => ids ?? []),
    usage,
    finishReasons: choices.flatMap(({ finish_reason: reason }) => reason ?? []),
  };
}
