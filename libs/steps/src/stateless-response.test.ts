import { type Api } from '@llm-d/gateway';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { checkStatelessResponse } from './stateless-response.ts';
import { Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

const check = (body: string, api: Api = 'responses') => {
  checkStatelessResponse(requestContext({ api, body }));
};

const refused = [
  ['previous_response_id', '"r"'],
  ['previous_response_id', '""'],
  ['conversation', '"c"'],
  ['conversation', '{"id":"c"}'],
  ['background', 'true'],
  ['input', '{}'],
  ['input', '5'],
  ['input', 'true'],
  ['input', 'null'],
] as const;

describe('a request to /v1/responses', () => {
  it.each(refused)('is refused with %s: %s', (name, value) => {
    const run = (): void => check(`{"${name}":${value}}`);
    expect(run).toThrow(expect.objectContaining({ status: 400, param: name }));
    expect(run).toThrow(new RegExp(`^${name} `));
  });

  it('is refused with an image given by file', () => {
    expect(() =>
      check('{"input":[{"content":[{"type":"input_image","file_id":"secret"}]}]}'),
    ).toThrow('input[0].content[0]: image_url must be a text, an image by file_id is not served');
  });

  it.each([
    '{}',
    '{"input":"x"}',
    '{"input":[]}',
    '{"input":"x","previous_response_id":null,"conversation":null,"background":null}',
    '{"input":"x","background":false,"store":true}',
  ])('passes as %s', (body) => {
    expect(() => check(body)).not.toThrow();
  });

  it.each(['chat', 'completions', 'generate'] as const)(
    'is the only one that is refused: %s has these fields without effect',
    (api) => {
      for (const [name, value] of refused) check(`{"${name}":${value}}`, api);
    },
  );

  it('reaches no step when it is refused', async () => {
    const sink = new MemorySink();
    const pipeline = rig.pipeline([{ type: 'decode' }]);
    const body = '{"input":[{"output":[{"type":"input_image","file_id":"f"}]}]}';
    const ctx = requestContext({ api: 'responses', body, sink });
    await expect(pipeline.run(ctx)).rejects.toMatchObject({ status: 400 });
    expect(rig.gateway.calls).toEqual([]);
    expect(ctx.timeline).toEqual([]);
  });
});
