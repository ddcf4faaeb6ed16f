import { type Agent } from 'undici';
import { canonicalText, type JsonObject } from './exact-json.ts';
import { type PullResult } from './kv-leases.ts';
import { askSide } from './side-channel.ts';

/** Paths of the KV side channel. */
export const kvPullPath = '/_sim/kv/pull';
export const kvReleasePath = '/_sim/kv/release';

const remoteFields = ['remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'];

/**
 * What ends a real decode pod (engine-verified.md 4): a promise of remote prefill without usable blocks
 * or without one of the four `remote_*` fields. Undefined for params a pod survives.
 */
export function fatalDefect(params: JsonObject): string | undefined {
  const missing = remoteFields.find((name) => params[name] === undefined || params[name] === null);
  if (!hasBlocks(params['remote_block_ids'])) return 'remote_block_ids holds no blocks';
  return missing === undefined ? undefined : `${missing} is missing`;
}

/** vLLM 0.32 sends one list per cache group; older builds sent one flat list. */
function hasBlocks(ids: unknown): boolean {
  if (!Array.isArray(ids) || ids.length === 0) return false;
  return (ids as unknown[]).every((group) => !Array.isArray(group) || group.length > 0);
}

/** How the transfer of one prompt ended. */
export interface KvPull {
  result: PullResult | 'unreachable';
  detail: string;
  pod: string | undefined;
  blocks: number;
}

/** Fetches the blocks of one prompt from the pod that the params name, sending every param as it came. */
export async function pullKv(
  agent: Agent,
  params: JsonObject,
  promptDigest: string,
  timeoutMs: number,
): Promise<KvPull> {
  const url = sideUrl(params['remote_host'], params['remote_port'], kvPullPath);
  const answer = await askSide(agent, url, { params, prompt_digest: promptDigest }, timeoutMs);
  if ('unreachable' in answer) {
    return { result: 'unreachable', detail: answer.unreachable, pod: undefined, blocks: 0 };
  }
  if (answer.status !== 200) {
    return { result: 'unreachable', detail: `HTTP ${answer.status}`, pod: undefined, blocks: 0 };
  }
  const { result, detail, pod, blocks } = answer.body;
  return {
    result: result as PullResult,
    detail: String(detail),
    pod: String(pod),
    blocks: Number(blocks),
  };
}

/** Tells the prefill pod that nobody will fetch these blocks. Best effort, as in a real pod. */
export async function releaseKv(
  agent: Agent,
  params: JsonObject,
  timeoutMs: number,
): Promise<void> {
  const url = sideUrl(params['remote_host'], params['remote_port'], kvReleasePath);
  await askSide(agent, url, { params }, timeoutMs);
}

/** URL on the side channel that a transfer parameter names; host and port may be anything a client sent. */
export function sideUrl(host: unknown, port: unknown, path: string): string {
  const name = typeof host === 'string' ? host : canonicalText(host);
  const bracketed = name.includes(':') && !name.startsWith('[') ? `[${name}]` : name;
  return `http://${bracketed}:${typeof port === 'string' ? port : canonicalText(port)}${path}`;
}
