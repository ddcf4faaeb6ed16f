import { type AnswerReceiver, type StreamFlow, TransportError } from '@llm-d/gateway';

import { normaliseAnswer, unsupportedAnswer } from './normalise-answer.ts';
import { type ProxyRequest, type ProxySettings, type ProxySink } from './proxy-request.ts';
import { RenameModel } from './rename-model.ts';
import { type RewrittenRequest } from './rewrite-request.ts';
import { type Upstream } from './upstream.ts';

const LIST_PATH = '/v1/completions/render';
/** An upstream's refusal that is handed on. */
const MAX_REFUSAL_BYTES = 65_536;

/** Takes the answer of one upstream, and hands on what may be handed on. */
export class UpstreamAnswer implements AnswerReceiver {
  status = 0;
  /** True for a 404 or 405 that is not about a model. */
  lacksRoute = false;
  hasStarted = false;
  private readonly upstream: Upstream;
  private readonly request: ProxyRequest;
  private readonly rewritten: RewrittenRequest;
  private readonly sink: ProxySink;
  private readonly settings: ProxySettings;
  private readonly rename: RenameModel | undefined;
  private flow: StreamFlow | undefined;
  private headers: readonly string[] = [];
  /** What is read before it is handed on: refusals, and all of an answer that is normalised. */
  private held: Uint8Array[] = [];
  private readonly stop = new AbortController();
  private bytes = 0;

  constructor(
    upstream: Upstream,
    request: ProxyRequest,
    rewritten: RewrittenRequest,
    sink: ProxySink,
    settings: ProxySettings,
  ) {
    this.upstream = upstream;
    this.request = request;
    this.rewritten = rewritten;
    this.sink = sink;
    this.settings = settings;
    const { callersModel } = rewritten;
    this.rename = callersModel === undefined ? undefined : new RenameModel(callersModel);
  }

  /** Aborts, with the error as its reason, when the answer cannot be handed on. */
  get stopped(): AbortSignal {
    return this.stop.signal;
  }

  start(status: number, headers: readonly string[], flow: StreamFlow): boolean {
    this.status = status;
    this.headers = headers;
    this.flow = flow;
    return status < 500;
  }

  data(chunk: Uint8Array): void {
    try {
      this.take(chunk);
    } catch (error) {
      this.stop.abort(error);
    }
  }

  private take(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    if (this.status !== 200) {
      if (this.bytes <= MAX_REFUSAL_BYTES) this.held.push(chunk);
      return;
    }
    if (this.bytes > this.settings.maxAnswerBytes) throw new TransportError('answer-too-large');
    if (this.settings.normalise === 'full' && isRender(this.request.path)) {
      this.held.push(chunk);
      return;
    }
    if (!this.hasStarted) {
      if (this.settings.normalise === 'light') this.checkStart(chunk);
      this.begin(200, this.rename === undefined ? this.length() : []);
    }
    for (const piece of this.rename?.push(chunk) ?? [chunk]) {
      if (!this.sink.write(piece)) this.flow?.pause();
    }
  }

  /** The whole answer has come. */
  finish(): void {
    if (this.status >= 500) return;
    if (this.status === 200 && (this.hasStarted || this.held.length > 0)) {
      if (!this.hasStarted) this.sendNormalised();
      this.sink.end();
      return;
    }
    if (this.status === 200) throw unsupportedAnswer('no body');
    const body = Buffer.concat(this.held);
    this.lacksRoute = [404, 405].includes(this.status) && !isModelError(body);
    if (this.lacksRoute) return;
    if (this.status < 400) throw unsupportedAnswer(`status ${this.status}`);
    if (this.bytes > MAX_REFUSAL_BYTES) throw unsupportedAnswer('a refusal of unusual length');
    this.begin(this.status, ['content-length', String(body.length)]);
    this.sink.write(body);
    this.sink.end();
  }

  private sendNormalised(): void {
    const whole = Buffer.concat(this.held);
    this.held = [];
    const chunks = normaliseAnswer(whole, {
      isList: this.request.path === LIST_PATH,
      callersModel: this.rewritten.callersModel,
      isCheap: this.rewritten.isCheap,
    });
    const length = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
    this.begin(200, ['content-length', String(length)]);
    for (const chunk of chunks) this.sink.write(chunk);
  }

  private begin(status: number, headers: readonly string[]): void {
    this.hasStarted = true;
    this.sink.onDrain(() => this.flow?.resume());
    this.sink.start(status, [
      ...['content-type', this.header('content-type') ?? 'application/json', ...headers],
      ...['x-render-mode', 'proxy', 'x-render-upstream', String(this.upstream.index)],
      ...['x-render-cache', 'off'],
    ]);
  }

  /** Status and type are right, but an old server answers other things on the same route. */
  private checkStart(chunk: Uint8Array): void {
    const type = this.header('content-type') ?? '';
    if (!/^application\/json\b/i.test(type)) throw unsupportedAnswer('another content type');
    if (!isRender(this.request.path)) return;
    const first = /\S/.exec(Buffer.from(chunk.subarray(0, 64)).toString('latin1'))?.[0];
    const wanted = this.request.path === LIST_PATH ? '[' : '{';
    if (first !== wanted) throw unsupportedAnswer(`it does not start with ${wanted}`);
  }

  private length(): readonly string[] {
    const length = this.header('content-length');
    return length === undefined ? [] : ['content-length', length];
  }

  private header(name: string): string | undefined {
    const at = this.headers.findIndex(
      (text, index) => index % 2 === 0 && text.toLowerCase() === name,
    );
    return at === -1 ? undefined : this.headers[at + 1];
  }
}

function isRender(path: string): boolean {
  return path.endsWith('/render');
}

/** A 404 with vLLM's error object is about the model; one without says that there is no such route. */
function isModelError(body: Buffer): boolean {
  try {
    const answer = JSON.parse(body.toString()) as { error?: unknown; object?: unknown } | null;
    return answer?.error !== undefined || answer?.object === 'error';
  } catch {
    return false;
  }
}
