import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { probeMediaFetcher } from './probe-media-fetcher.ts';
import { TestCoordinator } from './testing.ts';

let fetcher: ScriptedServer;
beforeEach(async () => {
  fetcher = await scriptedServer({ json: { status: 'ok', cache: 'degraded' } });
});
afterEach(() => fetcher.close());

describe('probeMediaFetcher', () => {
  it('asks for its readiness', async () => {
    await probeMediaFetcher(fetcher.url);
    expect(fetcher.calls).toMatchObject([{ method: 'GET', path: '/readyz' }]);
  });

  it.each([
    { name: 'has too much to do', answer: { status: 503, json: { status: 'saturated' } } },
    { name: 'says something else', answer: { text: 'ok' } },
    { name: 'redirects', answer: { status: 302, headers: { location: '/readyz' } } },
    { name: 'hangs', answer: { beforeHeaders: 'hang' as const } },
    { name: 'never ends', answer: { chunks: [' ', { end: 'hang' as const }] } },
    { name: 'says too much', answer: { text: ' '.repeat(5_000) } },
  ])('rejects when it $name', async ({ answer }) => {
    fetcher.play(answer);
    await expect(probeMediaFetcher(fetcher.url)).rejects.toThrow();
  });

  it('rejects when nobody is there', async () => {
    await fetcher.close();
    await expect(probeMediaFetcher(fetcher.url)).rejects.toThrow();
  });
});

it('/readyz?verbose shows the media fetcher in remote mode', async () => {
  const coordinator = await TestCoordinator.open();
  try {
    const params = { mode: 'remote', address: fetcher.url };
    await coordinator.start({
      pipeline: { steps: [{ type: 'replace-media-urls', params }, { type: 'decode' }] },
    });
    const ask = async (): Promise<unknown> =>
      (await fetch(`${coordinator.url}/readyz?verbose`)).json();
    expect(await ask()).toEqual({
      status: 'ok',
      dependencies: { gateway: 'up', 'media-fetcher': 'up' },
    });
    await fetcher.close();
    expect(await ask()).toMatchObject({ dependencies: { 'media-fetcher': 'down' } });
  } finally {
    await coordinator.close();
  }
});
