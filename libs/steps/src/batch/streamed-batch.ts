import { editObject, type JsonInput, type JsonSpan, jsonRaw } from '@llm-d/json-document';
import { BadUpstreamAnswerError, type ResponseSink } from '@llm-d/pipeline';
import { dataLines, EventSplitter } from './event-splitter.ts';
import { batchHeaders, headerValue } from './headers.ts';
import { PromptAnswer, type HeldBytes } from './prompt-answer.ts';
import { placeChoices } from './place-choices.ts';
import { readJson } from './read-json.ts';
import { readUsage, totalUsage } from './sum-usage.ts';

/** Members that are equal in all events of one stream. */
const shared = ['id', 'created'] as const;

/** The events that answer one prompt, passed on as they come with their places in the batch. */
class StreamedAnswer extends PromptAnswer {
  /** A worker's own report of a failure, as it came. */
  errorEvent: Uint8Array | undefined;
  /** The counts that came last. */
  usage: unknown;
  readonly #batch: StreamedBatch;
  readonly #firstIndex: number;
  readonly #events = new EventSplitter();
  #isEventStream = false;
  #fault: string | undefined;
  #isDone = false;

  constructor(batch: StreamedBatch, firstIndex: number, heldBytes: HeldBytes) {
    super(heldBytes);
    this.#batch = batch;
    this.#firstIndex = firstIndex;
  }

  override start(status: number, headers: readonly string[]): void {
    super.start(status, headers);
    const type = headerValue(headers, 'content-type') ?? '';
    this.#isEventStream =
      status < 400 &&
      /^text\/event-stream/i.test(type) &&
      headerValue(headers, 'content-encoding') === undefined;
  }

  override write(chunk: Uint8Array): boolean {
    if (!this.#isEventStream) return super.write(chunk);
    const pieces: Uint8Array[] = [];
    const before = this.#events.pendingBytes;
    for (const event of this.#events.push(chunk)) this.#take(event, pieces);
    this.heldBytes.add(this.#events.pendingBytes - before);
    return pieces.length === 0 || this.#batch.write(this, pieces);
  }

  /** @throws BadUpstreamAnswerError unless all events came and all could be read. */
  settle(): Promise<void> {
    const fault = this.#isEventStream ? this.#fault : 'the answer is not a plain event stream';
    if (fault !== undefined) throw new BadUpstreamAnswerError('decode', fault);
    if (!this.#isDone) {
      throw new BadUpstreamAnswerError('decode', 'the event stream ended before its end mark');
    }
    return Promise.resolve();
  }

  /** Appends to `pieces` what the client gets of an event. */
  #take(event: Uint8Array, pieces: Uint8Array[]): void {
    // Nothing counts after a failure.
    if (this.#fault !== undefined) return;
    const [line, further] = dataLines(event);
    if (!line) {
      pieces.push(event);
      return;
    }
    const data = event.subarray(line.start, line.end);
    if (Buffer.from(data).toString('latin1').trim() === '[DONE]') {
      this.#isDone = true;
      return;
    }
    const root = further ? undefined : readJson(data);
    const choices = root?.get('choices');
    if (root && isGiven(root.get('error'))) {
      this.errorEvent = event;
      this.#fault = 'the worker reported a failure in its event stream';
    } else if (!root || choices?.kind !== 'array') {
      this.#fault = 'an event is not a completion';
    } else {
      const usage = readUsage(root.get('usage'));
      this.usage = usage ?? this.usage;
      if (choices.isEmpty() && usage !== undefined) this.#batch.keepUsageEvent(root);
      else {
        const placed = placeChoices(choices, this.#firstIndex);
        const edited = editObject(root, { ...this.#batch.sharedMembers(root), choices: placed });
        pieces.push(event.subarray(0, line.start), ...edited.chunks, event.subarray(line.end));
      }
    }
  }
}

/** Makes one event stream of those of all prompts: events in order of arrival, one id, one sum, one end. */
export class StreamedBatch {
  readonly #sink: ResponseSink;
  readonly #samples: number;
  readonly #heldBytes: HeldBytes;
  readonly #answers: StreamedAnswer[] = [];
  #isStarted = false;
  #shared: Readonly<Record<string, JsonInput>> | undefined;
  #usageEvent: JsonSpan | undefined;

  /** `samples` is how many choices each prompt gets. */
  constructor(sink: ResponseSink, samples: number, heldBytes: HeldBytes) {
    this.#sink = sink;
    this.#samples = samples;
    this.#heldBytes = heldBytes;
    sink.onDrain(() => {
      for (const answer of this.#answers) answer.resume();
    });
  }

  answerTo(index: number): StreamedAnswer {
    const answer = new StreamedAnswer(this, index * this.#samples, this.#heldBytes);
    return (this.#answers[index] = answer);
  }

  /** False when the client reads slower. */
  write({ status, headers }: PromptAnswer, pieces: readonly Uint8Array[]): boolean {
    if (!this.#isStarted) this.#sink.start(status, batchHeaders(headers));
    this.#isStarted = true;
    return this.#sink.write(Buffer.concat(pieces));
  }

  /** What the first event says and all events repeat. */
  sharedMembers(event: JsonSpan): Readonly<Record<string, JsonInput>> {
    return (this.#shared ??= Object.fromEntries(
      shared.flatMap((name) => {
        const value = event.get(name);
        return value ? [[name, jsonRaw(value)]] : [];
      }),
    ));
  }

  /** Holds an event back that tells the counts of one prompt only. */
  keepUsageEvent(event: JsonSpan): void {
    this.#usageEvent ??= event;
  }

  /** Sends the sum, if the workers counted, and the end. Returns what was sent. */
  finish(): readonly Uint8Array[] {
    const [first] = this.#answers;
    if (!first) throw new Error('a batch has at least one prompt');
    const pieces: Uint8Array[] = [];
    const usage = totalUsage(this.#answers.map((answer) => answer.usage));
    if (this.#usageEvent && usage) {
      const members = { ...this.sharedMembers(this.#usageEvent), usage };
      pieces.push(dataStart, ...editObject(this.#usageEvent, members).chunks, eventEnd);
    }
    pieces.push(Buffer.from('data: [DONE]\n\n'));
    this.write(first, pieces);
    this.#sink.end();
    return pieces;
  }
}

const dataStart = Buffer.from('data: ');
const eventEnd = Buffer.from('\n\n');

const isGiven = (value: JsonSpan | undefined): boolean => value !== undefined && !value.isNull();
