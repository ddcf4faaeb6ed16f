import { BadRequestError, defineStep, type RequestContext } from '@llm-d/pipeline';
import { z } from 'zod';

/** Refuses a prompt that has one of the forbidden phrases in it, before any worker is called. */
export const guardrail = defineStep({
  type: 'guardrail',
  params: z.strictObject({
    forbidden: z
      .array(z.string().min(1))
      .min(1)
      .describe('Phrases that no prompt may contain, in whatever case.'),
  }),
  create({ forbidden }, { log }) {
    const phrases = forbidden.map((phrase) => phrase.toLowerCase());
    return (ctx) => {
      for (const { param, text } of promptTexts(ctx.body)) {
        const prompt = text.toLowerCase();
        if (phrases.some((phrase) => prompt.includes(phrase))) {
          // What the prompt says is for nobody's log.
          log.info({ request_id: ctx.requestId, param }, 'prompt refused');
          throw new BadRequestError(`${param}: the prompt is not allowed here`, {
            code: 'PROMPT_REFUSED',
            param,
          });
        }
      }
      return Promise.resolve('continue');
    };
  },
});

type Body = RequestContext['body'];

/** The texts of a prompt where chat, completions and responses requests have them. Media are not looked into. */
function* promptTexts(body: Body): Generator<{ param: string; text: string }> {
  for (const param of ['prompt', 'input', 'instructions']) {
    const text = body.text(param);
    if (text !== undefined) yield { param, text };
  }
  for (const list of ['messages', 'input']) {
    let index = 0;
    for (const message of body.get(list)?.elements() ?? []) {
      const param = `${list}[${index++}].content`;
      const content = message.get('content');
      const text = content?.text();
      if (text !== undefined) yield { param, text };
      let part = 0;
      for (const item of content?.elements() ?? []) {
        const partText = item.get('text')?.text();
        if (partText !== undefined) yield { param: `${param}[${part}]`, text: partText };
        part++;
      }
    }
  }
}
