import { ApiError } from './api-error.ts';
import { type AdmittedCall } from './call.ts';
import { canonicalText, type JsonObject } from './exact-json.ts';
import { sideUrl } from './kv-transfer.ts';
import { type Prompt, promptDigest } from './prompt.ts';
import { type KvSource } from './request-log.ts';
import { type Meeting } from './rooms.ts';
import { askSide } from './side-channel.ts';

/** Path of the bootstrap channel on which decode pods come to a room. */
export const joinRoomPath = '/_sim/bootstrap/join';

/** Where two SGLang pods meet: top-level members of both bodies. */
export interface Bootstrap {
  host: string;
  port: number;
  /** Digits or any other name; both pods must write it alike. */
  room: string;
}

const members = ['bootstrap_host', 'bootstrap_port', 'bootstrap_room'];

/** Reads the members; undefined when one is missing or of a wrong kind. */
export function bootstrapOf(body: JsonObject): Bootstrap | undefined {
  const [host, port, room] = members.map((name) => body[name]);
  if (typeof host !== 'string' || typeof port !== 'number') return undefined;
  if (room === undefined || room === null || typeof room === 'boolean') return undefined;
  return { host, port, room: typeof room === 'string' ? room : canonicalText(room) };
}

/** Waits until decode has come for this prompt, as prefill does before it answers. Throws ApiError. */
export async function awaitDecode(call: AdmittedCall, prompt: Prompt): Promise<void> {
  const { engine, input } = call;
  const { host, port, room } = wanted(input.bootstrap);
  const { kvPeer, bootstrapPort } = engine;
  if (host !== kvPeer.host || port !== bootstrapPort) {
    throw new ApiError(400, 'the bootstrap members name another pod than this one');
  }
  const meeting = await inTime(call, (signal) =>
    engine.rooms.meet('prefill', room, promptDigest(prompt), signal),
  );
  finish(meeting);
}

/** Fetches the KV of a prompt from the prefill pod in whose room it is announced. Throws ApiError. */
export async function joinRoom(call: AdmittedCall, prompt: Prompt): Promise<KvSource> {
  const { engine, input } = call;
  const { host, port, room } = wanted(input.bootstrap);
  const url = sideUrl(host, port, joinRoomPath);
  const body = { room, prompt_digest: promptDigest(prompt) };
  const answer = await inTime(call, async (signal) => {
    const joined = await askSide(engine.agent, url, body, signal);
    signal.throwIfAborted();
    return joined;
  });
  const isThere = 'body' in answer && answer.status === 200;
  const meeting = isThere ? (String(answer.body['meeting']) as Meeting) : 'unreachable';
  engine.metrics.count('sim_kv_pull_total', { result: meeting });
  finish(meeting);
  const blocks = Math.ceil(prompt.tokenIds.length / engine.config.blockSize);
  return { source: 'external', pod: isThere ? String(answer.body['pod']) : undefined, blocks };
}

/** Waits as long as the caller does and SGLang would; who waited in vain is counted. */
async function inTime<T>(
  { engine, reply }: AdmittedCall,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = AbortSignal.timeout(engine.tuning.roomTimeoutMs);
  try {
    return await wait(AbortSignal.any([reply.signal, limit]));
  } catch (error) {
    if (!reply.signal.aborted && !limit.aborted) throw error;
    engine.metrics.count('sim_room_abandoned_total');
    if (reply.signal.aborted) throw error;
    throw new ApiError(500, 'KV transfer failed: nobody came to the bootstrap room in time');
  }
}

function finish(meeting: Meeting | 'unreachable'): void {
  if (meeting !== 'ok') throw new ApiError(500, `KV transfer failed: ${meeting}`);
}

function wanted(bootstrap: Bootstrap | undefined): Bootstrap {
  if (bootstrap) return bootstrap;
  throw new ApiError(400, 'the bootstrap members are missing');
}
