import { describe, expect, it } from '@jest/globals';
import { type Api, apiOfPath, apiPaths, legApi } from './paths.ts';

describe('apiOfPath', () => {
  it.each(Object.entries(apiPaths))('knows the path of %s', (api, path) => {
    expect(apiOfPath(path)).toBe(api);
  });

  it.each([
    '/v1/models',
    '/v1/chat/completions/',
    '/V1/chat/completions',
    '/x/v1/completions',
    '/v1/completions/render',
    '/v1/responses/r-1',
    'toString',
    '',
  ])('takes %j for no API', (path) => {
    expect(apiOfPath(path)).toBeUndefined();
  });
});

describe('legApi', () => {
  it.each<{ client: Api; usesOpenAiFormat: boolean; leg: Api }>([
    { client: 'chat', usesOpenAiFormat: true, leg: 'chat' },
    { client: 'chat', usesOpenAiFormat: false, leg: 'generate' },
    { client: 'completions', usesOpenAiFormat: true, leg: 'completions' },
    { client: 'completions', usesOpenAiFormat: false, leg: 'completions' },
    { client: 'generate', usesOpenAiFormat: true, leg: 'generate' },
    { client: 'generate', usesOpenAiFormat: false, leg: 'generate' },
    { client: 'responses', usesOpenAiFormat: true, leg: 'responses' },
    { client: 'responses', usesOpenAiFormat: false, leg: 'generate' },
  ])(
    'writes $client legs as $leg when the OpenAI format is $usesOpenAiFormat',
    ({ client, usesOpenAiFormat, leg }) => {
      expect(legApi(client, usesOpenAiFormat)).toBe(leg);
    },
  );
});
