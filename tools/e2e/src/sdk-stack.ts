import { type Answer, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

/** What the SDKs are tried against. */
export interface SdkStack {
  readonly stack: TestStack;
  /** The API of the whole stack, as SDKs take it. */
  readonly baseUrl: string;
  /** The API of a coordinator that only decodes, with `gateway` behind it. */
  readonly scriptedUrl: string;
  readonly gateway: ScriptedServer;
  stop(): Promise<void>;
}

/** Starts a stack, and beside it a coordinator whose gateway plays scripts. */
export async function startSdkStack(): Promise<SdkStack> {
  const stack = await startTestStack({ workers: onePodEach });
  const gateway = await scriptedServer();
  const scripted = await stack.startCoordinator('scripted', {
    steps: ['decode'],
    gateway: { address: gateway.url },
  });
  return {
    stack,
    baseUrl: `${stack.publicUrl}/v1`,
    scriptedUrl: `${scripted}/v1`,
    gateway,
    async stop() {
      await stack.stop();
      await gateway.close();
    },
  };
}

/** A worker's whole answer to a chat. */
export const chatAnswer = (content: string): Answer => ({
  json: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'sim/model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  },
});

/** vLLM's own words on a request that it refuses. */
export const refusal: Answer = {
  status: 400,
  json: {
    error: {
      message: 'temperature must be non-negative, got -3.0.',
      type: 'BadRequestError',
      param: 'temperature',
      code: 400,
    },
  },
};

/** A tool as all SDKs can be told of it. */
export const weatherParameters = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'],
  additionalProperties: false,
};
