import { ZodError } from 'zod';
import { ApiError } from './api-error.ts';
import { type Engine } from './engine.ts';
import { isObject, parseExact } from './exact-json.ts';
import { type Reply } from './reply.ts';

/** Serves `/admin/*`, on a dead engine too, for that is when it is needed. Throws ApiError 400 or 404. */
export async function serveAdmin(
  engine: Engine,
  route: string,
  query: URLSearchParams,
  body: Uint8Array,
  reply: Reply,
): Promise<void> {
  switch (route) {
    case 'GET /admin/config':
      await reply.json(200, { ...engine.config, ...engine.tuning });
      return;
    case 'POST /admin/config':
      patchConfig(engine, body);
      await reply.json(200, { ...engine.config, ...engine.tuning });
      return;
    case 'POST /admin/reset':
      engine.reset();
      await reply.json(200, engine.state());
      return;
    case 'GET /admin/state':
      await reply.json(200, engine.state());
      return;
    case 'GET /admin/requests':
      await reply.json(200, { requests: engine.log.list(query.get('request_id') ?? undefined) });
      return;
    default:
      throw new ApiError(404, 'Not Found');
  }
}

function patchConfig(engine: Engine, body: Uint8Array): void {
  let patch: unknown;
  try {
    patch = parseExact(Buffer.from(body).toString('utf8'));
  } catch {
    throw new ApiError(400, 'Invalid JSON');
  }
  if (!isObject(patch)) throw new ApiError(400, 'a patch is a JSON object of option names');
  try {
    engine.patch(patch);
  } catch (error) {
    if (!(error instanceof ZodError)) throw error;
    const [issue] = error.issues;
    const where = issue && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
    throw new ApiError(400, `${where}${issue?.message ?? 'invalid'}`);
  }
}
