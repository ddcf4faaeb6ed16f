import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { type UnknownPathHandler } from '@llm-d/service';

import { modelRoutes } from './model-backend.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Paths of vLLM's server and the methods that they take. */
const paths: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.values(modelRoutes).map((path) => [path, ['POST']])),
  '/v1/models': ['GET'],
  '/version': ['GET'],
  '/load': ['GET'],
  '/ping': ['GET', 'POST'],
};

/** Answers what has no route, a wrong method, a closing slash and `/health` as vLLM's HTTP server does. */
export function behaveLikeVllm(fastify: FastifyInstance): void {
  for (const [url, taken] of Object.entries(paths)) {
    fastify.route({
      method: METHODS.filter((method) => !taken.includes(method)),
      url,
      handler: async (_request: FastifyRequest, reply: FastifyReply) => {
        const allow = taken.join(', ');
        await reply.code(405).header('allow', allow).send({ detail: 'Method Not Allowed' });
      },
    });
  }
  fastify.addHook('onRequest', (request, reply, done) => {
    const [path = '', query] = request.url.split('?', 2);
    if (path === '/health' && request.method === 'GET') {
      void reply.code(200).send('');
    } else if (path.endsWith('/') && path.slice(0, -1) in paths) {
      const target = path.slice(0, -1) + (query === undefined ? '' : `?${query}`);
      void reply.code(307).header('location', target).send('');
    } else done();
  });
}

/** `{"detail": "Not Found"}` for every path without a route. */
export class UnknownPath implements UnknownPathHandler {
  async serve(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const body = '{"detail":"Not Found"}';
    reply.raw.writeHead(404, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-request-id': request.id,
    });
    await new Promise<void>((resolve) => {
      reply.raw.end(body, resolve);
    });
  }
}
