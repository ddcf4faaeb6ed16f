import { MediaError } from './media-error.ts';
import { type Modality } from './options.ts';

/** What ends one item: its caller's signal, or its time. */
export interface Deadline {
  readonly modality: Modality;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Runs the work of one item, with a controller that aborts with `media_timeout` when its time is over. */
export async function withDeadline<T>(
  { modality, timeoutMs, signal }: Deadline,
  work: (item: AbortController) => Promise<T>,
): Promise<T> {
  const item = new AbortController();
  const timer = setTimeout(() => {
    item.abort(
      new MediaError('media_timeout', `downloading ${modality}: not done in time`, {
        limit: timeoutMs,
      }),
    );
  }, timeoutMs);
  const leave = (): void => {
    item.abort(signal.reason);
  };
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await work(item);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
  }
}
