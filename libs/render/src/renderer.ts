import { type RenderedPrompt } from './answer/rendered-prompt.ts';
import { renderChat, type RenderResources } from './chat/render-chat.ts';
import { RequestFields } from './chat/request-fields.ts';
import { renderCompletions } from './completions/render-completions.ts';
import { loadProfile, type Profile, type ProfileOptions } from './profile.ts';
import { type RenderCaller } from './render-notes.ts';
import { RenderWorkers } from './render-workers.ts';
import { renderResponses } from './responses/render-responses.ts';
import { detokenizeRequest, tokenizeRequest, type TokenizedRequest } from './tokenize-requests.ts';

/** How one request is rendered. */
export interface RenderOptions extends RenderCaller {
  /** Decodes the images too, unless the request asks for the cheap mode. */
  readonly tensors?: boolean;
}

/** Renders requests for one model: template, tokenizer and image geometry, all in this process. */
export class Renderer {
  private readonly profile: Profile;
  private readonly workers: RenderWorkers;
  private readonly ownsWorkers: boolean;

  private constructor(profile: Profile, workers: RenderWorkers, ownsWorkers: boolean) {
    this.profile = profile;
    this.workers = workers;
    this.ownsWorkers = ownsWorkers;
  }

  /**
   * Loads a profile; without a directory the shipped one. Renderers of one process share `workers`, which their owner
   * closes. Rejects when a file is missing or unsupported.
   */
  static async load(options: ProfileOptions = {}, workers?: RenderWorkers): Promise<Renderer> {
    const used = workers ?? new RenderWorkers();
    return new Renderer(await loadProfile(options, used), used, workers === undefined);
  }

  /** Stops workers of its own; what they work on is rejected. Needed only where tensors were asked for, or the tokenizer is in JavaScript. */
  async close(): Promise<void> {
    await this.profile.tokenizer.close();
    if (this.ownsWorkers) await this.workers.close();
  }

  /** Names that requests may use, the main one first. */
  get modelIds(): readonly string[] {
    return this.profile.modelIds;
  }

  /** Name of the model as its workers were started with; part of every image hash. */
  get rootName(): string {
    return this.profile.rootName;
  }

  /** The form in which templates get message content; undefined for a model without a template. */
  get contentFormat(): string | undefined {
    const { contentFormat, template } = this.profile;
    if (contentFormat !== 'auto' && contentFormat !== 'auto-legacy') return contentFormat;
    try {
      return template(false).contentFormat(contentFormat === 'auto-legacy');
    } catch {
      return undefined;
    }
  }

  /** Context length in tokens. */
  get maxModelLen(): number {
    return this.profile.maxModelLen;
  }

  /** Renders the bytes of a chat request. Rejects with a `RenderError`; may be called concurrently. */
  async chat(body: Uint8Array, options: RenderOptions = {}): Promise<RenderedPrompt> {
    return renderChat(RequestFields.parse(body), this.profile, this.resourcesFor(options));
  }

  /** Takes back the memory of a prompt's tensors, once its answer is sent; nobody may read them after that. */
  recycle({ kwargsData = [] }: RenderedPrompt): void {
    this.workers.tensors.recycle(kwargsData);
  }

  /** Renders the bytes of a responses request, as `chat` renders a chat. */
  async responses(body: Uint8Array, options: RenderOptions = {}): Promise<RenderedPrompt> {
    return renderResponses(RequestFields.parse(body), this.profile, this.resourcesFor(options));
  }

  /** Renders the bytes of a completions request: one result per prompt. Rejects with a `RenderError`. */
  async completions(body: Uint8Array, caller: RenderCaller = {}): Promise<RenderedPrompt[]> {
    return renderCompletions(RequestFields.parse(body), this.profile, caller);
  }

  /** Ids of a text; special tokens of the model are added unless `addSpecialTokens` is false. */
  async tokenize(
    text: string,
    options: { readonly addSpecialTokens?: boolean } = {},
  ): Promise<Uint32Array> {
    const { ids } = await this.profile.tokenizer.encode(text, {
      addSpecialTokens: options.addSpecialTokens ?? true,
    });
    return ids;
  }

  /** Text of ids, special tokens included; ids outside the vocabulary give nothing. */
  async detokenize(ids: Iterable<number>): Promise<string> {
    return this.profile.tokenizer.decode(ids);
  }

  /** Answers the bytes of a `/tokenize` request. Rejects with a `RenderError`. */
  async tokenizeRequest(body: Uint8Array, caller: RenderCaller = {}): Promise<TokenizedRequest> {
    return tokenizeRequest(RequestFields.parse(body), this.profile, caller);
  }

  /** The text that the bytes of a `/detokenize` request ask for. Rejects with a `RenderError`. */
  async detokenizeRequest(body: Uint8Array): Promise<string> {
    return detokenizeRequest(RequestFields.parse(body), this.profile);
  }

  private resourcesFor({ tensors, ...caller }: RenderOptions): RenderResources {
    return { ...caller, pool: tensors === true ? this.workers.tensors : undefined };
  }
}
