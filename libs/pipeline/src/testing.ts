import { randomUUID } from 'node:crypto';
import { type Api, apiPaths } from '@llm-d/gateway';
import { JsonDocument, type JsonInput } from '@llm-d/json-document';
import { ForwardedHeaders, headerPolicy } from './forwarded-headers.ts';
import { type Logger, silentLogger } from './logger.ts';
import { RequestContext } from './request-context.ts';
import { type RequestObserver } from './timeline.ts';
import { type ResponseSink } from './response-sink.ts';
import { type Step, type StepDefinition, type StepDependencies } from './step.ts';
import { StepRegistry } from './step-registry.ts';

/** A sink that keeps what it is given; for tests of steps. */
export class MemorySink implements ResponseSink {
  status: number | undefined;
  headers: readonly string[] = [];
  readonly pieces: Uint8Array[] = [];
  ended: 'no' | 'whole' | 'cut' = 'no';
  /** What `write` answers; false plays a slow client. */
  accepts = true;
  #drained: () => void = () => {};

  get isStarted(): boolean {
    return this.status !== undefined;
  }

  /** The answer so far as text. */
  get text(): string {
    return Buffer.concat(this.pieces).toString('utf8');
  }

  start(status: number, headers: readonly string[]): void {
    if (this.isStarted) throw new Error('the answer has started already');
    this.status = status;
    this.headers = headers;
  }

  write(chunk: Uint8Array): boolean {
    this.pieces.push(chunk);
    return this.accepts;
  }

  onDrain(callback: () => void): void {
    this.#drained = callback;
  }

  /** Plays a client that has caught up. */
  drain(): void {
    this.accepts = true;
    this.#drained();
  }

  end(): void {
    this.ended = 'whole';
  }

  abort(): void {
    this.ended = 'cut';
  }
}

/** A logger that keeps its lines; for tests that look for a warning. */
export class MemoryLog implements Logger {
  readonly lines: { level: keyof Logger; message: string; fields: object }[] = [];

  error = (fields: object, message: string): void => this.#add('error', fields, message);
  warn = (fields: object, message: string): void => this.#add('warn', fields, message);
  info = (fields: object, message: string): void => this.#add('info', fields, message);
  debug = (fields: object, message: string): void => this.#add('debug', fields, message);

  /** Messages of one level in order. */
  messages(level: keyof Logger): string[] {
    return this.lines.filter((line) => line.level === level).map(({ message }) => message);
  }

  #add(level: keyof Logger, fields: object, message: string): void {
    this.lines.push({ level, message, fields });
  }
}

/**
 * The step that the coordinator would make of these parameters. Dependencies that it uses must be given; the log is silent
 * otherwise.
 *
 * @throws Error when the parameters do not fit, or when one is unknown.
 */
export function buildStep(
  definition: StepDefinition,
  params: Readonly<Record<string, unknown>> = {},
  dependencies: Partial<StepDependencies> = {},
): Step {
  const { type } = definition;
  // What is missing fails where a step uses it.
  const all = { log: silentLogger, ...dependencies } as StepDependencies;
  return new StepRegistry([definition]).build({ type, params }, all, (key) => {
    throw new Error(`${type}: ${key}: unknown parameter`);
  }).run;
}

/** A request context with a body given as a value, or as text where its bytes matter. */
export function requestContext(
  options: {
    api?: Api;
    body?: string | Record<string, JsonInput>;
    headers?: readonly string[];
    /** What the client sent, where that matters. */
    rawHeaders?: readonly string[];
    signal?: AbortSignal;
    sink?: ResponseSink;
    requestId?: string;
    log?: Logger;
    observers?: readonly RequestObserver[];
  } = {},
): RequestContext {
  const { api = 'chat', body = { model: 'm', messages: [] } } = options;
  return new RequestContext({
    requestId: options.requestId ?? 'test-1',
    revisionDecisionId: randomUUID(),
    path: apiPaths[api],
    api,
    headers: ForwardedHeaders.from(options.headers ?? [], headerPolicy()),
    rawHeaders: options.rawHeaders ?? [],
    body: typeof body === 'string' ? JsonDocument.parse(Buffer.from(body)) : JsonDocument.of(body),
    signal: options.signal ?? new AbortController().signal,
    sink: options.sink ?? new MemorySink(),
    log: options.log ?? silentLogger,
    observers: options.observers ?? [],
  });
}
