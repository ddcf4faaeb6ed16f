/**
 * Runs `work` for every item, at most `limit` at a time, results in order. The first failure aborts the others; all are
 * waited for before it is thrown.
 */
export async function runLimited<T, R>(
  items: readonly T[],
  limit: number,
  signal: AbortSignal,
  work: (item: T, index: number, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const stop = new AbortController();
  const all = items.length > 1 ? AbortSignal.any([signal, stop.signal]) : signal;
  const results: R[] = [];
  let [next, failure] = [0, undefined as { error: unknown } | undefined];
  const runNext = async (): Promise<void> => {
    while (next < items.length && !failure) {
      const index = next++;
      // The index is inside the list.
      const item = items[index] as T;
      try {
        results[index] = await work(item, index, all);
      } catch (error) {
        failure ??= { error };
        stop.abort(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, runNext));
  if (failure) throw failure.error;
  return results;
}
