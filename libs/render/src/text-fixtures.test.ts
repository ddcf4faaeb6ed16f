import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { answerOf } from './recorded/answer-of.ts';
import { textServers } from './recorded/text-cases.ts';
import { Renderer } from './renderer.ts';

it('has 1,392 cases', () => {
  expect(textServers.map(({ cases }) => cases.length)).toEqual([232, 232, 232, 232, 232, 232]);
});

describe.each(textServers)('requests recorded from vLLM 0.33 as $name', ({ options, cases }) => {
  let renderer: Renderer;
  beforeAll(async () => {
    renderer = await Renderer.load(options);
  });
  afterAll(async () => {
    await renderer.close();
  });

  it.each(cases.filter(({ difference }) => difference === undefined))(
    '$id answers as recorded',
    async (recorded) => {
      recorded.check(await answerOf(renderer, recorded));
    },
  );

  const different = cases.filter(({ difference }) => difference !== undefined);
  if (different.length > 0) {
    it.each(different)('$id differs: $difference', async (recorded) => {
      const given = await answerOf(renderer, recorded);
      expect(() => {
        recorded.check(given);
      }).toThrow();
    });
  }
});
