import { afterEach, describe, expect, it } from '@jest/globals';
import { defineStep, type Step } from '@llm-d/pipeline';
import { z } from 'zod';
import { TestRig } from './rig/testing.ts';

// coordinator.md 2.6 row 5, 8.1 and 8.7: what a step of somebody else may do wrong.

let rig: TestRig | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

/** A coordinator whose only step is this one. */
async function open(run: Step): Promise<TestRig> {
  const definition = defineStep({
    type: 'strange',
    params: z.strictObject({}),
    isTerminal: true,
    create: () => run,
  });
  rig = await TestRig.open({ steps: ['strange'], definitions: [definition] });
  return rig;
}

const failing = (thrown: unknown): Step => {
  return () => {
    // A step of another package may throw what it likes.
    throw thrown as Error;
  };
};

describe('a step', () => {
  it.each([
    { name: 'an error', thrown: new TypeError('SECRET of undefined') },
    { name: 'a text', thrown: 'SECRET' },
    { name: 'nothing', thrown: undefined },
  ])('that throws $name is a 500 without its words, counted once', async ({ thrown }) => {
    const test = await open(failing(thrown));
    const { status, text } = await test.post({ model: 'm' }, { 'x-request-id': 'id-1' });
    expect(status).toBe(500);
    expect(JSON.parse(text)).toEqual({
      error: {
        message: 'internal error (request_id: id-1)',
        type: 'server_error',
        param: null,
        code: 'INTERNAL_ERROR',
        step: 'strange',
        request_id: 'id-1',
      },
    });
    await test.summary();
    expect(await test.metrics('request_total')).toEqual({ 'request_total{model_name="m"}': 1 });
    expect(await test.metrics('request_error_total')).toEqual({
      'request_error_total{model_name="m",error_code="internal"}': 1,
    });
    expect(await test.metrics('step_errors_total')).toEqual({
      'step_errors_total{step="strange",error_code="internal"}': 1,
    });
    expect(await test.metrics('step_running')).toEqual({ 'step_running{step="strange"}': 0 });
    expect(await test.metrics('request_running{model_name="m"}')).toEqual({
      'request_running{model_name="m"}': 0,
    });
  });

  it.each(['continue', 'served'] as const)(
    'that answers nobody and says "%s" is a 500, not an empty 200',
    async (outcome) => {
      const test = await open(() => Promise.resolve(outcome));
      const { status, text } = await test.post({ model: 'm' });
      expect(status).toBe(500);
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'INTERNAL_ERROR' } });
    },
  );

  it('that fails after it began to answer never makes the answer look whole', async () => {
    const test = await open((ctx) => {
      ctx.sink.start(200, ['content-type', 'application/json']);
      ctx.sink.write(Buffer.from('{"a":'));
      return Promise.reject(new Error('SECRET'));
    });
    await expect(test.post({ model: 'm' })).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(await test.summary()).toMatchObject({ outcome: 'failed', code: 'INTERNAL_ERROR' });
  });
});
