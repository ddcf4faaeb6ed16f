import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { answerOf } from './recorded/answer-of.ts';
import { imageServers } from './recorded/image-cases.ts';
import { Renderer } from './renderer.ts';

it('has 382 cases and 24 of bfloat16 tensors', () => {
  expect(imageServers.map(({ cases }) => cases.length)).toEqual([120, 120, 120, 12, 12, 22]);
});

describe.each(imageServers)('requests recorded from vLLM 0.33 as $name', ({ options, cases }) => {
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
