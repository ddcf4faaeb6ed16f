import { createHash, timingSafeEqual } from 'node:crypto';

import { type FastifyInstance } from 'fastify';

/** Asks for one of these tokens on paths below `/v1`, as vLLM does with an API key; without tokens nothing is asked. */
export function requireBearer(fastify: FastifyInstance, tokens: readonly string[]): void {
  if (tokens.length === 0) return;
  const digests = tokens.map(digest);
  fastify.addHook('onRequest', (request, reply, done) => {
    // The route, not the URL: a path has more spellings than one.
    const isOpen = request.routeOptions.url?.startsWith('/v1/') !== true;
    const [, given] = /^bearer (.+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (isOpen || (given !== undefined && isKnown(digests, digest(given)))) done();
    else void reply.code(401).send({ error: 'Unauthorized' });
  });
}

/** Compares with all of them, so that the time says nothing. */
function isKnown(digests: readonly Buffer[], given: Buffer): boolean {
  return digests.filter((known) => timingSafeEqual(known, given)).length > 0;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
