import { writeAnswer } from '../answer/write-answer.ts';
import { RenderError } from '../errors.ts';
import { type Answer, type RecordedCase } from './recorded-case.ts';
import { type Renderer } from '../renderer.ts';

const HEX = '0'.repeat(16);

/** The answer of a renderer, written as the app writes it. */
export async function answerOf(renderer: Renderer, recorded: RecordedCase): Promise<Answer> {
  try {
    return await render(renderer, recorded);
  } catch (error) {
    if (!(error instanceof RenderError)) throw error;
    const { status, type, param } = error;
    return { status, body: JSON.stringify({ error: { type, param } }) };
  }
}

async function render(renderer: Renderer, { path, body: read }: RecordedCase): Promise<Answer> {
  const body = read();
  if (path === '/v1/completions/render') {
    const prompts = await renderer.completions(body);
    const answers = prompts.map((prompt, at) => {
      const requestId = `cmpl-${HEX}${prompts.length === 1 ? '' : `-${at}`}`;
      return Buffer.concat(writeAnswer(prompt, { requestId })).toString();
    });
    return { status: 200, body: `[${answers.join(',')}]` };
  }
  const isChat = path === '/v1/chat/completions/render';
  const options = { tensors: true };
  const prompt = await (isChat ? renderer.chat(body, options) : renderer.responses(body, options));
  const requestId = `${isChat ? 'chatcmpl-' : 'resp_'}${HEX}`;
  return {
    status: 200,
    body: Buffer.concat(writeAnswer(prompt, { requestId })).toString(),
    promptText: prompt.promptText,
  };
}
