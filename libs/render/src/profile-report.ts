import { RenderError } from './errors.ts';
import { type ProfileOptions } from './profile.ts';
import { Renderer } from './renderer.ts';
import { RenderWorkers } from './render-workers.ts';

/** Whether a profile can do something, and if not, why. */
export type Support =
  { readonly isSupported: true } | { readonly isSupported: false; readonly reason: string };

/** What a profile can render in this process. */
export interface ProfileReport {
  /** Nothing else works when this does not. */
  readonly text: Support;
  readonly chat: Support;
  readonly tools: Support;
  readonly images: Support;
  /** Undefined when the profile cannot be loaded. */
  readonly details:
    | {
        readonly rootName: string;
        readonly maxModelLen: number;
        /** Undefined without a chat template. */
        readonly contentFormat: string | undefined;
      }
    | undefined;
}

const SUPPORTED: Support = { isSupported: true };
const MESSAGES = [{ role: 'user', content: 'hi' }];
const TOOL = {
  type: 'function',
  function: {
    name: 'f',
    description: 'd',
    parameters: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
  },
};
/** A white pixel. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC';

/** Loads a profile and renders a request of each kind with it. */
export async function reportProfile(options: ProfileOptions): Promise<ProfileReport> {
  let renderer: Renderer;
  const workers = new RenderWorkers();
  try {
    renderer = await Renderer.load(options, workers);
  } catch (cause) {
    const support = refused(cause);
    return { text: support, chat: support, tools: support, images: support, details: undefined };
  }
  const render = (body: object): Promise<Support> =>
    supportOf(() => renderer.chat(Buffer.from(JSON.stringify(body))));
  const image = [{ type: 'image_url', image_url: { url: PIXEL } }];
  return {
    text: await supportOf(() => renderer.completions(Buffer.from('{"prompt":"hi"}'))),
    chat: await render({ messages: MESSAGES }),
    tools: await render({ messages: MESSAGES, tools: [TOOL] }),
    images: await render({ messages: [{ role: 'user', content: image }] }),
    details: {
      rootName: renderer.rootName,
      maxModelLen: renderer.maxModelLen,
      contentFormat: renderer.contentFormat,
    },
  };
}

async function supportOf(render: () => Promise<unknown>): Promise<Support> {
  try {
    await render();
    return SUPPORTED;
  } catch (cause) {
    if (!(cause instanceof RenderError)) throw cause;
    return refused(cause);
  }
}

function refused(cause: unknown): Support {
  return { isSupported: false, reason: cause instanceof Error ? cause.message : String(cause) };
}
