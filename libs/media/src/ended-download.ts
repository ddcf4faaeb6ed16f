import { MediaError } from './media-error.ts';

/** How a download ended; what the address guard refused before a connection was tried is none. */
export interface EndedDownload {
  readonly result: 'success' | 'error' | 'cancelled';
  /** Until the headers of the answer came, redirects included; undefined when none came. */
  readonly headersMs: number | undefined;
  readonly durationMs: number;
}

/** Runs a download and tells when it has ended, however many attempts it took; `left` aborts with its caller. */
export async function told<T>(
  onDownload: ((download: EndedDownload) => void) | undefined,
  left: AbortSignal,
  run: (onHeaders: () => void) => Promise<T>,
): Promise<T> {
  if (!onDownload) return run(() => undefined);
  const startedAt = performance.now();
  let headersMs: number | undefined;
  const end = (result: EndedDownload['result']): void => {
    onDownload({ result, headersMs, durationMs: performance.now() - startedAt });
  };
  try {
    const result = await run(() => {
      headersMs = performance.now() - startedAt;
    });
    end('success');
    return result;
  } catch (error) {
    // A call that fails ends its other downloads, as a caller that leaves does.
    if (left.aborted) end('cancelled');
    else if (!(error instanceof MediaError && error.code === 'media_address_blocked')) end('error');
    throw error;
  }
}
