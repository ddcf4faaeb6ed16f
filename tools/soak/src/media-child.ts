import { monitorEventLoopDelay } from 'node:perf_hooks';
import {
  createMediaFetcher,
  defaultMediaFetchOptions,
  type MediaFetchOptions,
  type MediaSettings,
} from '@llm-d/media';

/** What the process of the fetcher is told. */
export type MediaOrder =
  | {
      readonly kind: 'start';
      readonly settings: MediaSettings;
      readonly options: Partial<MediaFetchOptions>;
    }
  | { readonly kind: 'fetch'; readonly id: number; readonly url: string }
  | { readonly kind: 'state' };

/** What it tells. */
export type MediaReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'end'; readonly id: number; readonly code: string; readonly ms: number }
  | {
      readonly kind: 'state';
      readonly residentBytes: number;
      readonly stats: object;
      readonly lagMs: number;
    };

// A fetcher in a process of its own, so that the memory is that of the fetcher.

const never = new AbortController().signal;
let fetcher = createMediaFetcher();
let options = defaultMediaFetchOptions;
const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();
const tell = (report: MediaReport): void => {
  process.send?.(report);
};

process.on('message', (order: MediaOrder) => {
  switch (order.kind) {
    case 'start':
      fetcher = createMediaFetcher(order.settings);
      options = { ...defaultMediaFetchOptions, ...order.options };
      tell({ kind: 'ready' });
      break;
    case 'fetch':
      void fetch(order.id, order.url);
      break;
    case 'state':
      tell({
        kind: 'state',
        residentBytes: process.memoryUsage.rss(),
        stats: fetcher.stats(),
        lagMs: delay.max / 1e6,
      });
  }
});
process.on('disconnect', () => process.exit());

async function fetch(id: number, url: string): Promise<void> {
  const start = performance.now();
  let code = 'ok';
  try {
    // What the coordinator does with it.
    (await fetcher.fetch({ url, modality: 'image' }, options, never)).base64();
  } catch (error) {
    code = (error as { code?: string }).code ?? String(error);
  }
  tell({ kind: 'end', id, code, ms: performance.now() - start });
}
