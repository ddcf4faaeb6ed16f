import { describe, expect, it } from '@jest/globals';
import { buildStep, MemoryLog, requestContext } from '@llm-d/pipeline/testing';
import { guardrail } from './guardrail.ts';
import { steps } from './index.ts';

const log = new MemoryLog();
const step = buildStep(guardrail, { forbidden: ['open sesame', 'Passwort'] }, { log });

/** What becomes of a request with this body. */
const run = async (body: Parameters<typeof requestContext>[0] & object) =>
  step(requestContext(body));

describe('the guardrail', () => {
  it('is what the package offers', () => {
    expect(steps).toEqual([guardrail]);
  });

  it.each([
    { name: 'a text', content: 'Say OPEN sesame', param: 'messages[1].content' },
    {
      name: 'a part',
      content: [
        { type: 'image_url', image_url: { url: 'data:,' } },
        { type: 'text', text: 'Das pass\u0077ort?' },
      ],
      param: 'messages[1].content[1]',
    },
  ])('refuses a message with a forbidden phrase in $name', async ({ content, param }) => {
    const messages = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content },
    ];
    await expect(run({ body: { messages } })).rejects.toMatchObject({
      status: 400,
      code: 'PROMPT_REFUSED',
      param,
      message: `${param}: the prompt is not allowed here`,
    });
  });

  it.each([
    { api: 'completions', body: { prompt: 'open sesame' }, param: 'prompt' },
    { api: 'responses', body: { input: 'open sesame' }, param: 'input' },
    {
      api: 'responses',
      body: { input: [{ content: [{ type: 'input_text', text: 'open sesame' }] }] },
      param: 'input[0].content[0]',
    },
  ] as const)('reads $param of $api', async ({ api, body, param }) => {
    await expect(run({ api, body })).rejects.toMatchObject({ param });
  });

  it.each([
    ['an innocent one', { messages: [{ role: 'user', content: 'Good morning' }] }],
    ['one without a text', { messages: [{ role: 'user', content: null }, {}] }],
    ['one of token ids', { prompt: [1, 2, 3] }],
  ])('lets %s pass', async (_name, body) => {
    expect(await run({ body })).toBe('continue');
  });

  it('logs where, but not what', async () => {
    log.lines.length = 0;
    await run({ body: { prompt: 'open sesame' } }).catch(() => {});
    expect(log.lines).toEqual([
      {
        level: 'info',
        message: 'prompt refused',
        fields: { request_id: 'test-1', param: 'prompt' },
      },
    ]);
  });

  it.each([
    [{}, 'guardrail: forbidden: '],
    [{ forbidden: [] }, 'guardrail: forbidden: '],
    [{ forbidden: ['a'], colour: 'red' }, 'guardrail: colour: unknown parameter'],
  ])('is not built from %j', (params, message) => {
    expect(() => buildStep(guardrail, params)).toThrow(message);
  });
});
