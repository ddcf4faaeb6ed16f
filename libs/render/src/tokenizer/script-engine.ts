import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

import { notImplemented, RenderError } from '../errors.ts';
import { type Encoded, type TokenizerEngine } from './tokenizer-engine.ts';

/** What the thread is asked. */
export type ScriptRequest =
  | { readonly kind: 'encode'; readonly text: string; readonly addSpecialTokens: boolean }
  | { readonly kind: 'decode' | 'spellings'; readonly ids: number[] }
  | { readonly kind: 'size' };

/** What it answers, by the kind of the request. */
export interface ScriptReply {
  readonly ids?: Uint32Array;
  readonly text?: string;
  readonly spellings?: (string | null)[];
  readonly size?: number;
}

const SCRIPT = new URL(
  import.meta.url.endsWith('.ts') ? './script-thread.ts' : './script-thread.js',
  import.meta.url,
);
const DEFAULT_TIMEOUT_MS = 30_000;

/**
 * A tokenizer in JavaScript, for machines without a native build, on a thread of its own: some texts take it seconds. One
 * that takes too long is answered with 504, and the thread replaced.
 */
export class ScriptEngine implements TokenizerEngine {
  private readonly definition: string;
  private readonly timeoutMs: number;
  private worker: Worker | undefined;
  /** The job before the next one. */
  private last: Promise<unknown> = Promise.resolve();

  private constructor(definition: string, timeoutMs: number) {
    this.definition = definition;
    this.timeoutMs = timeoutMs;
  }

  /** Takes the text of a `tokenizer.json`. Rejects when the library does not know its parts. */
  static async load(definition: string, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<ScriptEngine> {
    const engine = new ScriptEngine(definition, timeoutMs);
    engine.worker = await engine.start();
    return engine;
  }

  async encode(text: string, addSpecialTokens: boolean, withOffsets: boolean): Promise<Encoded> {
    if (withOffsets) {
      throw notImplemented(
        'return_token_offsets without the native tokenizer',
        'return_token_offsets',
      );
    }
    const { ids = new Uint32Array() } = await this.ask({ kind: 'encode', text, addSpecialTokens });
    return { ids, offsets: undefined };
  }

  async decode(ids: number[]): Promise<string> {
    return (await this.ask({ kind: 'decode', ids })).text ?? '';
  }

  async spellings(ids: number[]): Promise<(string | null)[]> {
    return (await this.ask({ kind: 'spellings', ids })).spellings ?? [];
  }

  async size(): Promise<number> {
    return (await this.ask({ kind: 'size' })).size ?? 0;
  }

  async close(): Promise<void> {
    await this.worker?.terminate();
  }

  /** One job after the other: the thread does no two at once, and each has its own time. */
  private ask(request: ScriptRequest): Promise<ScriptReply> {
    const reply = this.last.then(() => this.run(request));
    this.last = reply.catch(() => undefined);
    return reply;
  }

  private async run(request: ScriptRequest): Promise<ScriptReply> {
    const worker = (this.worker ??= await this.start());
    worker.ref();
    worker.postMessage(request);
    const limit = AbortSignal.timeout(this.timeoutMs);
    try {
      const [reply] = (await once(worker, 'message', { signal: limit })) as [ScriptReply];
      return reply;
    } catch (cause) {
      this.worker = undefined;
      await worker.terminate();
      throw limit.aborted
        ? new RenderError(504, 'TimeoutError', `Tokenizing took longer than ${this.timeoutMs} ms.`)
        : new RenderError(500, 'InternalServerError', 'Tokenizing failed.', null, { cause });
    } finally {
      worker.unref();
    }
  }

  private async start(): Promise<Worker> {
    const worker = new Worker(SCRIPT, { workerData: this.definition });
    await once(worker, 'message');
    worker.unref();
    return worker;
  }
}
