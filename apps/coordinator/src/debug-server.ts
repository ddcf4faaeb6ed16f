import { createServer, type Server } from 'node:http';
import { type ListenAddress } from '@llm-d/service';
import { type HandoffCounts } from '@llm-d/pipeline';
import { type RecentRequests } from './recent-requests.ts';

const requestPath = /^\/debug\/requests\/([a-zA-Z0-9-]{1,128})$/;

/**
 * Answers `GET /debug/requests/{id}` with the summary and the timeline of a recent request, and
 * `GET /debug/handoffs` with the counts of all hand-offs. Rejects when the address cannot be bound.
 */
export async function startDebugServer(
  { recent, handoffs }: { recent: RecentRequests; handoffs: HandoffCounts },
  address: ListenAddress,
): Promise<Server> {
  const server = createServer((request, response) => {
    const path = request.method === 'GET' ? (request.url ?? '') : '';
    const id = requestPath.exec(path)?.[1];
    const asked = id === undefined ? undefined : recent.get(id);
    const found = path === '/debug/handoffs' ? handoffs : asked;
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(found ?? { error: { message: 'nothing here' } }));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, resolve);
  });
  return server;
}
