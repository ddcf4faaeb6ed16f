import { createServer, type Server } from 'node:http';
import { type ListenAddress } from '@llm-d/service';
import { type RecentRequests } from './recent-requests.ts';

const requestPath = /^\/debug\/requests\/([a-zA-Z0-9-]{1,128})$/;

/**
 * Answers `GET /debug/requests/{id}` with the summary and the timeline of a recent request. Rejects
 * when the address cannot be bound.
 */
export async function startDebugServer(
  recent: RecentRequests,
  address: ListenAddress,
): Promise<Server> {
  const server = createServer((request, response) => {
    const id = request.method === 'GET' ? requestPath.exec(request.url ?? '')?.[1] : undefined;
    const found = id === undefined ? undefined : recent.get(id);
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(found ?? { error: { message: 'no such request' } }));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, resolve);
  });
  return server;
}

/** Whether only this machine can reach an address. */
export function isLoopback({ host }: ListenAddress): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host ?? '');
}
