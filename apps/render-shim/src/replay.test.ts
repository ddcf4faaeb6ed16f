import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { imageServers, textServers } from '@llm-d/render/testing';
import { Agent, request } from 'undici';

import { type RunningShim, startShim } from './testing.ts';

/** The library runs all recorded servers; over HTTP goes one of each kind. */
const texts = textServers.filter(({ name }) => name === 'qwen3-flags');
const images = imageServers.filter(({ name }) => name === 'qwen3-vl');

describe.each([...texts, ...images])(
  'requests recorded from vLLM 0.33 as $name, sent to a served shim',
  ({ options, cases }) => {
    const agent = new Agent();
    let shim: RunningShim;
    beforeAll(async () => {
      shim = await startShim([{ mode: 'embedded', profile: options }]);
    });
    afterAll(async () => {
      await agent.close();
      await shim.stop();
    });

    it('are answered as recorded, those that differ on purpose excepted', async () => {
      const wrong: string[] = [];
      for (const { id, path, body, difference, check } of cases) {
        const answer = await request(`${shim.url}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: body(),
          dispatcher: agent,
        });
        const given = { status: answer.statusCode, body: await answer.body.text() };
        try {
          check(given);
          if (difference !== undefined) wrong.push(`${id} is equal`);
        } catch (error) {
          if (difference === undefined) wrong.push(`${id}: ${String(error)}`);
        }
      }
      expect(wrong).toEqual([]);
    }, 120_000);
  },
);
