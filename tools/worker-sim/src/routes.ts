import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { RenderError } from '@llm-d/render';
import { serveAdmin } from './admin.ts';
import { ApiError } from './api-error.ts';
import { type Engine } from './engine.ts';
import { type Api, apiPaths } from './inference-input.ts';
import { readBody } from './read-body.ts';
import { CutByFault, Reply } from './reply.ts';
import { type Outcome } from './request-log.ts';
import { RoleViolation } from './role-rules.ts';
import { serveInference } from './serve-inference.ts';
import { serveSmallRoute } from './small-routes.ts';

const megabyte = 1024 * 1024;
const adminBodyBytes = megabyte;

/** Serves one HTTP request of a worker; never rejects. */
export async function serveRequest(
  engine: Engine,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://worker');
  const path = url.pathname.length > 1 ? url.pathname.replace(/\/$/, '') : url.pathname;
  const route = `${request.method ?? 'GET'} ${path}`;
  const requestId = first(request.headers['x-request-id']);
  const reply = new Reply(response, {
    'x-inference-pod': engine.config.podName,
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
  });
  const api = apiPaths[path];
  try {
    if (api !== undefined && request.method === 'POST') {
      await recorded(engine, api, request, reply, requestId ?? randomUUID());
    } else if (api !== undefined) {
      throw new ApiError(405, 'Method Not Allowed');
    } else if (path.startsWith('/admin/')) {
      const { bytes } = await readBody(request, adminBodyBytes);
      await serveAdmin(engine, route, url.searchParams, bytes, reply);
    } else {
      await serveSmallRoute(engine, route, request, reply);
    }
  } catch (error) {
    await refuse(error, reply);
  }
}

/** One inference call with its record, which says how it ended whatever happens. */
async function recorded(
  engine: Engine,
  api: Api,
  request: IncomingMessage,
  reply: Reply,
  requestId: string,
): Promise<void> {
  const { headers } = request;
  const startedMs = performance.now();
  const record = engine.log.open({
    requestId,
    method: 'POST',
    path: request.url ?? '',
    headers,
    profile: first(headers['epp-profile']),
    prefer: first(headers['prefer']),
  });
  let end: Partial<Outcome> = { status: 'finished' };
  try {
    const { bytes, sha256 } = await readBody(request, engine.tuning.bodyLimitMb * megabyte);
    record.bodyBytes = bytes.length;
    record.bodySha256 = sha256;
    const faults = engine.faultsOf(first(headers['x-sim-fault']), first(headers['x-return-error']));
    await serveInference(engine, api, { reply, record, headers, body: bytes, faults, startedMs });
    end = { status: 'finished', httpStatus: reply.status };
  } catch (error) {
    end = endOf(error, reply);
    if (end.status === 'aborted') engine.metrics.count('sim_aborted_total');
    if (error instanceof RoleViolation) engine.metrics.count('sim_role_violation_total');
    throw error;
  } finally {
    record.ms = Math.round(performance.now() - startedMs);
    record.outcome = { ...record.outcome, ...end };
  }
}

function endOf(error: unknown, reply: Reply): Partial<Outcome> {
  if (error instanceof CutByFault) return { status: 'failed', message: error.message };
  const sent = reply.hasStarted ? { httpStatus: reply.status } : {};
  if (reply.signal.aborted) return { status: 'aborted', ...sent };
  const { status: httpStatus, message } = asApiError(error);
  return { status: httpStatus < 500 ? 'refused' : 'failed', message, httpStatus, ...sent };
}

async function refuse(error: unknown, reply: Reply): Promise<void> {
  if (error instanceof CutByFault || reply.signal.aborted) return;
  if (reply.hasStarted) {
    reply.destroy();
    return;
  }
  const { status, body, headers } = asApiError(error);
  await reply.json(status, body, headers).catch(() => reply.destroy());
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof RenderError) {
    const { status, message, type, param } = error;
    return new ApiError(status, message, { type, param });
  }
  return new ApiError(500, `Internal server error: ${error instanceof Error ? error.message : ''}`);
}

const first = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value;
