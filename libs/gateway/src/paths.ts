/** The request shapes that a client or a worker speaks. */
export type Api = 'chat' | 'completions' | 'generate' | 'responses';

/** The path of each API, the same at the coordinator and at the workers. */
export const apiPaths: Record<Api, string> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  generate: '/inference/v1/generate',
  responses: '/v1/responses',
};

/** The API that a client's path belongs to. */
export function apiOfPath(path: string): Api | undefined {
  return (Object.keys(apiPaths) as Api[]).find((api) => apiPaths[api] === path);
}

/**
 * The API in which encode and prefill legs are written: completions stay as they are, chat and responses stay when the
 * OpenAI format is on, everything else goes as token ids.
 */
export function legApi(client: Api, usesOpenAiFormat: boolean): Api {
  return client === 'completions' || usesOpenAiFormat ? client : 'generate';
}
