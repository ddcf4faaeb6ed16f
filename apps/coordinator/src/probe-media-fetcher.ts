/** A probe must not leave calls behind that nobody answers. */
const probeLimitMs = 1_000;
const maxAnswerBytes = 4_096;

/** Asks a media fetcher whether it takes requests. Rejects when it does not say so in time. */
export async function probeMediaFetcher(address: string): Promise<void> {
  const { HttpService } = await import('@nestjs/axios');
  const { default: axios } = await import('axios');
  const { axiosRef } = new HttpService(
    axios.create({
      baseURL: address,
      timeout: probeLimitMs,
      signal: AbortSignal.timeout(probeLimitMs),
      maxContentLength: maxAnswerBytes,
      maxRedirects: 0,
      // It is inside; the proxies of the environment lead outside.
      proxy: false,
    }),
  );
  const { data } = await axiosRef.get<unknown>('/readyz');
  const isReady = typeof data === 'object' && data !== null && 'status' in data;
  if (!isReady || data.status !== 'ok') throw new Error('the media fetcher is not ready');
}
