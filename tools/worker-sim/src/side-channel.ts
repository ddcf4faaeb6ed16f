import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { type Agent, request } from 'undici';
import { isObject, type JsonObject, parseExact } from './exact-json.ts';
import { readBody } from './read-body.ts';

/** Bodies between pods are small: params and digests, never tensors. */
const sideBodyBytes = 1024 * 1024;

/** A pod's answer to a pull, or why there is none. */
export type SideAnswer = { status: number; body: JsonObject } | { unreachable: string };

/** Answers one call; undefined when the engine is dead. The signal fires when the caller leaves. */
export type SideRoute = (
  body: JsonObject,
  signal: AbortSignal,
) => JsonObject | undefined | Promise<JsonObject | undefined>;

/** What a side channel answers on each of its paths. */
export type SideRoutes = Readonly<Record<string, SideRoute>>;

/** Serves a side channel: JSON objects by POST. */
export function sideServer(routes: SideRoutes): Server {
  return createServer((incoming, outgoing) => {
    const answer = (status: number, body: unknown): void => {
      outgoing.writeHead(status, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify(body));
    };
    const handle = routes[incoming.url ?? ''];
    if (incoming.method !== 'POST' || !handle) {
      answer(404, { error: 'no such side channel' });
      incoming.resume();
      return;
    }
    const gone = new AbortController();
    outgoing.on('close', () => gone.abort());
    readBody(incoming, sideBodyBytes)
      .then(async ({ bytes }) => {
        const body = parseExact(bytes.toString('utf8'));
        const result = isObject(body) ? await handle(body, gone.signal) : undefined;
        // A dead engine takes its side channel with it.
        if (result === undefined) incoming.socket.destroy();
        else answer(200, result);
      })
      .catch(() => incoming.socket.destroy());
  });
}

/** Asks another pod's side channel for so many milliseconds, or until the signal fires. Never throws: a peer that does not answer is an answer too. */
export async function askSide(
  agent: Agent,
  url: string,
  body: JsonObject,
  limit: number | AbortSignal,
): Promise<SideAnswer> {
  try {
    const response = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: typeof limit === 'number' ? AbortSignal.timeout(limit) : limit,
    });
    const answer = parseExact(await response.body.text());
    return isObject(answer)
      ? { status: response.statusCode, body: answer }
      : { unreachable: 'the side channel answered no object' };
  } catch (error) {
    return { unreachable: error instanceof Error ? error.message : 'unknown error' };
  }
}

/** Port a listening server got. */
export const portOf = (server: Server): number => (server.address() as AddressInfo).port;
