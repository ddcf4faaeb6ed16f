import { ask } from './ask.ts';
import { jsonOf } from './openai.ts';

/** What the render service says about a prompt, as far as these tests need it. */
export interface Rendered {
  readonly token_ids: readonly number[];
  readonly features: {
    readonly mm_hashes: { readonly image: readonly string[] };
    readonly mm_placeholders: {
      readonly image: readonly { readonly offset: number; readonly length: number }[];
    };
    readonly kwargs_data: { readonly image: readonly (string | null)[] } | null;
  } | null;
}

/** Renders a chat or completions body. */
export async function render(renderUrl: string, path: string, body: object): Promise<Rendered> {
  const answer = await ask(renderUrl, { path: `${path}/render`, body });
  if (answer.status !== 200) throw new Error(answer.body.toString('utf8'));
  const rendered = jsonOf<Rendered | Rendered[]>(answer);
  const [only] = [rendered].flat();
  if (!only) throw new Error('nothing was rendered');
  return only;
}

/** The text that token ids stand for. */
export async function detokenize(renderUrl: string, tokens: readonly number[]): Promise<string> {
  const body = { model: 'sim/model', tokens };
  return jsonOf<{ prompt: string }>(await ask(renderUrl, { path: '/detokenize', body })).prompt;
}
