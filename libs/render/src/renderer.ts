import { detokenizeRequest, tokenizeRequest, type TokenizedRequest } from './tokenize-requests.ts';
import { renderChat } from './chat/render-chat.ts';
import { renderCompletions } from './completions/render-completions.ts';
import { RequestFields } from './chat/request-fields.ts';
import { TensorPool } from './pixels/tensor-pool.ts';
import { loadProfile, type Profile, type ProfileOptions } from './profile.ts';
import { type RenderedPrompt } from './answer/rendered-prompt.ts';
import { renderResponses } from './responses/render-responses.ts';

/** Renders requests for one model: template, tokenizer and image geometry, all in this process. */
export class Renderer {
  private readonly profile: Profile;
  private readonly tensorPool = new TensorPool();

  private constructor(profile: Profile) {
    this.profile = profile;
  }

  /** Loads a profile; without a directory the shipped one. Rejects when a file is missing or unsupported. */
  static async load(options: ProfileOptions = {}): Promise<Renderer> {
    return new Renderer(await loadProfile(options));
  }

  /** Stops the threads that build tensors; what they work on is rejected. Needed only where tensors were asked for. */
  async close(): Promise<void> {
    await this.tensorPool.close();
  }

  /** Names that requests may use, the main one first. */
  get modelIds(): readonly string[] {
    return this.profile.modelIds;
  }

  /** Name of the model as its workers were started with; part of every image hash. */
  get rootName(): string {
    return this.profile.rootName;
  }

  /** Context length in tokens. */
  get maxModelLen(): number {
    return this.profile.maxModelLen;
  }

  /**
   * Renders the bytes of a chat request. With `tensors` the images are decoded too, unless the request asks for the
   * cheap mode. Rejects with a `RenderError`; may be called concurrently.
   */
  async chat(
    body: Uint8Array,
    options: { readonly tensors?: boolean } = {},
  ): Promise<RenderedPrompt> {
    return renderChat(RequestFields.parse(body), this.profile, this.poolFor(options));
  }

  /** Renders the bytes of a responses request, as `chat` renders a chat. */
  async responses(
    body: Uint8Array,
    options: { readonly tensors?: boolean } = {},
  ): Promise<RenderedPrompt> {
    return renderResponses(RequestFields.parse(body), this.profile, this.poolFor(options));
  }

  /** Renders the bytes of a completions request: one result per prompt. Rejects with a `RenderError`. */
  async completions(body: Uint8Array): Promise<RenderedPrompt[]> {
    return renderCompletions(RequestFields.parse(body), this.profile);
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
  async tokenizeRequest(body: Uint8Array): Promise<TokenizedRequest> {
    return tokenizeRequest(RequestFields.parse(body), this.profile);
  }

  /** The text that the bytes of a `/detokenize` request ask for. Rejects with a `RenderError`. */
  async detokenizeRequest(body: Uint8Array): Promise<string> {
    return detokenizeRequest(RequestFields.parse(body), this.profile);
  }

  private poolFor({ tensors }: { readonly tensors?: boolean }): TensorPool | undefined {
    return tensors === true ? this.tensorPool : undefined;
  }
}
