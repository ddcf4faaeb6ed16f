import { type Agent } from 'undici';
import { ApiError } from './api-error.ts';
import { isObject, type JsonObject } from './exact-json.ts';
import { sideUrl } from './kv-transfer.ts';
import { type WorkerConfig } from './options.ts';
import { type PromptImage } from './prompt.ts';
import { type EcSource } from './request-log.ts';
import { type SharedStorage } from './shared-storage.ts';
import { askSide } from './side-channel.ts';

/** Path of the encoder-cache side channel. */
export const ecPullPath = '/_sim/ec/pull';

/** How a pull of an embedding ended, as counted in `sim_ec_pull_total`. */
export type EcPullResult = 'ok' | 'unknown' | 'altered' | 'unreachable' | 'foreign' | 'missing';

/** What a prefill pod needs to get the embeddings of a prompt. */
export interface EcContext {
  config: Pick<WorkerConfig, 'ecConnector' | 'ecStrict' | 'hiddenSize' | 'pullTimeoutMs'>;
  agent: Agent;
  storage: SharedStorage;
  /** Media hashes whose embedding this pod already has. */
  held: Set<string>;
  /** The tokens-in form: an item without processor output cannot be encoded here. */
  isTokensIn: boolean;
  count(result: EcPullResult): void;
}

/** Embeddings a prefill pod remembers. */
const maxHeld = 1024;

/**
 * Gets every embedding of a prompt, each from the pod that made it. Throws ApiError 500 when one is
 * missing, altered or not of this prompt; strict mode never encodes what should have been pulled.
 */
export async function fetchEmbeddings(
  images: readonly PromptImage[],
  params: JsonObject | undefined,
  context: EcContext,
): Promise<EcSource[]> {
  const descriptors = params ?? {};
  const { ecConnector, ecStrict } = context.config;
  const distinct = [...new Map(images.map((image) => [image.hash, image])).values()];
  if (ecConnector === 'nixl' && ecStrict) {
    const foreign = Object.keys(descriptors).find(
      (hash) => !distinct.some((image) => image.hash === hash),
    );
    if (foreign !== undefined) {
      context.count('foreign');
      throw new ApiError(500, `ec_transfer_params names ${foreign}, which is not in this prompt`);
    }
  }
  const hasParams = Object.keys(descriptors).length > 0;
  const sources: EcSource[] = [];
  for (const image of distinct) {
    sources.push(await fetchOne(image, descriptors[image.hash], hasParams, context));
    remember(context.held, image.hash);
  }
  return sources;
}

async function fetchOne(
  image: PromptImage,
  descriptor: unknown,
  hasParams: boolean,
  context: EcContext,
): Promise<EcSource> {
  const { ecConnector, ecStrict } = context.config;
  if (ecConnector === 'nixl' && descriptor !== undefined && descriptor !== null) {
    return pullOne(image, descriptor, context);
  }
  if (ecConnector === 'shared-storage') {
    const pod = await context.storage.findEmbedding(image.hash);
    if (pod !== undefined) {
      context.count('ok');
      return { hash: image.hash, source: 'external', peer: pod };
    }
  }
  // Tokens-in without descriptors is the client's own generate call: prefill encodes inline.
  const isInline = context.isTokensIn && !hasParams;
  if (ecConnector !== 'none' && ecStrict && !isInline) {
    context.count('missing');
    throw new ApiError(500, `encoder cache miss: no embedding for ${image.hash}`);
  }
  if (context.held.has(image.hash)) return { hash: image.hash, source: 'held', peer: undefined };
  if (!image.isEncodable) throw new ApiError(500, 'Internal server error');
  return { hash: image.hash, source: 'local', peer: undefined };
}

async function pullOne(
  image: PromptImage,
  descriptor: unknown,
  { agent, config, ...context }: EcContext,
): Promise<EcSource> {
  const refuse = (result: EcPullResult, detail: string): ApiError => {
    context.count(result);
    return new ApiError(500, `encoder cache miss: ${image.hash}: ${detail}`);
  };
  if (!isObject(descriptor)) throw refuse('altered', 'the descriptor is not an object');
  const { peer_host: host, peer_port: port, shape } = descriptor;
  const rows = Array.isArray(shape) ? (shape[0] as unknown) : undefined;
  if (rows !== image.length) {
    throw refuse('altered', `the prompt has ${image.length} placeholder tokens for it`);
  }
  const answer = await askSide(
    agent,
    sideUrl(host, port, ecPullPath),
    { hash: image.hash, descriptor },
    config.pullTimeoutMs,
  );
  if ('unreachable' in answer) throw refuse('unreachable', answer.unreachable);
  const { result, pod } = answer.body;
  if (answer.status !== 200) throw refuse('unreachable', `HTTP ${answer.status}`);
  if (result === 'unknown') throw refuse('unknown', 'the peer does not hold it');
  if (result !== 'ok') throw refuse('altered', 'the descriptor is not what encode answered');
  context.count('ok');
  return { hash: image.hash, source: 'external', peer: String(pod) };
}

function remember(held: Set<string>, hash: string): void {
  held.delete(hash);
  held.add(hash);
  for (const oldest of held) {
    if (held.size <= maxHeld) return;
    held.delete(oldest);
  }
}
