import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { type Agent, request } from 'undici';
import { isObject, type JsonObject, parseExact } from './exact-json.ts';
import { readBody } from './read-body.ts';

/** Bodies between pods are small: params and digests, never tensors. */
const sideBodyBytes = 1024 * 1024;

/** A pod's answer to a pull, or why there is none. */
export type SideAnswer = { status: number; body: JsonObject } | { unreachable: string };

/** What a side channel answers on each of its paths; undefined when the engine is dead. */
export type SideRoutes = Readonly<Record<string, (body: JsonObject) => JsonObject | undefined>>;

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
    readBody(incoming, sideBodyBytes).then(
      ({ bytes }) => {
        const body = parseExact(bytes.toString('utf8'));
        const result = isObject(body) ? handle(body) : undefined;
        // A dead engine takes its side channel with it.
        if (result === undefined) incoming.socket.destroy();
        else answer(200, result);
      },
      () => incoming.socket.destroy(),
    );
  });
}

/** Asks another pod's side channel. Never throws: a peer that does not answer is an answer too. */
export async function askSide(
  agent: Agent,
  url: string,
  body: JsonObject,
  timeoutMs: number,
): Promise<SideAnswer> {
  try {
    const response = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
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
