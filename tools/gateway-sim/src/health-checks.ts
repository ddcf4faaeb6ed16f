import { type Agent } from 'undici';
import { type Endpoint, type EndpointTable } from './endpoints.ts';

/** Asks every pod for `/health/ready` at once and then in intervals. Returns the function that stops it. */
export function startHealthChecks(
  table: EndpointTable,
  agent: Agent,
  intervalMs: number,
): () => void {
  const stop = new AbortController();
  const checkAll = (): void => {
    for (const endpoint of table.all) {
      void isReady(endpoint, agent, intervalMs, stop.signal).then((isGood) => {
        if (!stop.signal.aborted) table.checked(endpoint, isGood);
      });
    }
  };
  checkAll();
  const timer = setInterval(checkAll, intervalMs);
  return () => {
    clearInterval(timer);
    stop.abort();
  };
}

async function isReady(
  { authority }: Endpoint,
  agent: Agent,
  timeoutMs: number,
  stop: AbortSignal,
): Promise<boolean> {
  try {
    const { statusCode, body } = await agent.request({
      origin: `http://${authority}`,
      path: '/health/ready',
      method: 'GET',
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), stop]),
    });
    await body.dump();
    return statusCode === 200;
  } catch {
    return false;
  }
}
