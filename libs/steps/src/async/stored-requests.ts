import {
  type Found,
  type QueuedName,
  QueueUnavailableError,
  type RequestQueue,
  type StoredRequestCall,
  type StoredRequests,
} from '@llm-d/pipeline';
import { jsonAnswer, outcomeAnswer, pendingAnswer, unknownRequest } from './answers.ts';
import { AsyncError, invalidRequest } from './async-error.ts';
import { type AsyncHeaderNames, readTenant } from './async-headers.ts';
import { headerValues } from './header-values.ts';
import { type AsyncBrokerParams } from './params.ts';
import { isRequestId } from './request-id.ts';

/** What the step answers at `/v1/requests/<id>` and, where it is asked to, at `/v1/models`. */
export function storedRequests(
  queue: RequestQueue,
  names: AsyncHeaderNames,
  params: Pick<AsyncBrokerParams, 'compat_status' | 'serve_models' | 'routes'>,
): StoredRequests {
  const nameOf = ({ id, rawHeaders }: StoredRequestCall): QueuedName => {
    if (!isRequestId(id)) throw invalidRequest('the id is not valid', { param: 'id' });
    return { tenant: readTenant(rawHeaders, names), id };
  };
  const status = params.compat_status ? 500 : 503;
  const failed = (error: unknown, code: 'LOOKUP_FAILED' | 'DELETE_FAILED'): unknown => {
    if (!(error instanceof QueueUnavailableError)) return error;
    const { message, retryAfterSeconds } = error;
    return new AsyncError(message, {
      ...{ status, code, type: 'api_error', cause: error.cause, retryAfterSeconds },
    });
  };

  return {
    modeOf: (rawHeaders) => headerValues(rawHeaders, names.mode)[0]?.toLowerCase(),
    async fetch(call) {
      const name = nameOf(call);
      let found: Found;
      try {
        found = await queue.fetch(name);
      } catch (error) {
        throw failed(error, 'LOOKUP_FAILED');
      }
      if (found.kind === 'ready') {
        const ref = found;
        return { ...outcomeAnswer(found.outcome), onDelivered: () => queue.confirmFetch(ref) };
      }
      if (found.kind === 'pending') return pendingAnswer(name.id);
      throw unknownRequest(params);
    },
    async cancel(call) {
      const name = nameOf(call);
      try {
        await queue.cancel(name);
      } catch (error) {
        throw failed(error, 'DELETE_FAILED');
      }
      return { status: 204, headers: [] };
    },
    models: params.serve_models ? modelList(params.routes) : undefined,
  };
}

/** Each model of the routes once, in their order (1.10). */
function modelList(routes: AsyncBrokerParams['routes']) {
  const models = new Set(routes.map(({ model }) => model).filter((model) => model !== ''));
  const data = [...models].map((id) => ({ id, object: 'model', owned_by: 'llm-d-async' }));
  return jsonAnswer(200, { object: 'list', data });
}
