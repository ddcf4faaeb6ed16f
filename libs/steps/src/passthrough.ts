import { type Readable } from 'node:stream';
import {
  type Payload,
  requestIdHeader,
  revisionDecisionIdHeader,
  type StreamRequest,
  type UpstreamClient,
} from '@llm-d/gateway';
import { JsonDocument, JsonError } from '@llm-d/json-document';
import {
  BadRequestError,
  type ForwardedHeaders,
  type RequestContext,
  type RequestObserver,
  toCoordinatorError,
  type WireOptions,
} from '@llm-d/pipeline';
import { withoutClientTransferParams } from './client-transfer-params.ts';
import { PassthroughLeg } from './passthrough-leg.ts';
import { relay, type RelayContext } from './relay.ts';

const step = 'passthrough';

/** What a passthrough is built from. */
export interface PassthroughOptions {
  /** The client of the legs, so that both share their connections; whoever made it closes it. */
  readonly gateway: UpstreamClient;
  readonly wire: Pick<WireOptions, 'phaseHeader'>;
  readonly trustsClientTransferParams: boolean;
}

/** A client's body that can be taken once, whole or while it arrives. */
export interface ClientBody {
  /** Declared length; undefined when the client sends chunks. */
  readonly byteLength: number | undefined;
  read(): Promise<Buffer>;
  /** A body that is too large or breaks off aborts the request's signal with the reason. */
  stream(): Readable;
}

/** A request for a path that the coordinator does not serve itself. */
export interface PassthroughRequest
  extends RelayContext, Pick<RequestContext, 'revisionDecisionId'> {
  readonly method: string;
  /** Path and query as the client wrote them. */
  readonly target: string;
  /** With content type and coding of the body. */
  readonly headers: ForwardedHeaders;
  readonly contentTypes: readonly string[];
  readonly contentEncodings: readonly string[];
  /** Undefined when the request has none. */
  readonly body: ClientBody | undefined;
  /** `performance.now()` when the request arrived. */
  readonly arrivedAt: number;
  /** Hears of the one leg. */
  readonly observer?: RequestObserver | undefined;
}

/** Proxies paths of other APIs to a decode pod (coordinator.md 2.9). */
export class Passthrough {
  readonly #client: UpstreamClient;
  readonly #phaseHeader: string;
  readonly #readsBodies: boolean;

  constructor({ gateway, wire, trustsClientTransferParams }: PassthroughOptions) {
    this.#client = gateway;
    this.#phaseHeader = wire.phaseHeader;
    this.#readsBodies = !trustsClientTransferParams;
  }

  /**
   * Sends the request on and hands the answer to the client as it comes, errors of the gateway included.
   *
   * @throws CoordinatorError, with the step `passthrough`.
   */
  async serve(request: PassthroughRequest): Promise<void> {
    const { method, target, headers, requestId, revisionDecisionId, signal } = request;
    let leg: PassthroughLeg | undefined;
    try {
      const path = checkTarget(target);
      const body = await this.#bodyOf(request);
      leg = request.observer && new PassthroughLeg(request.observer, step, request.arrivedAt);
      leg?.sends(body?.byteLength);
      const own = [
        ...[revisionDecisionIdHeader, revisionDecisionId, requestIdHeader, requestId],
        ...[this.#phaseHeader, 'decode', ...(leg?.headers ?? [])],
      ];
      const call = {
        method,
        isRepeatable: method === 'GET' || method === 'HEAD',
        path,
        headers: headers.forRelay(own),
        body,
        signal,
      };
      await relay(request, step, this.#client, call, leg);
      leg?.finish();
    } catch (thrown) {
      const error = toCoordinatorError(signal.aborted ? signal.reason : thrown, step);
      leg?.finish(error);
      throw error;
    }
  }

  async #bodyOf(request: PassthroughRequest): Promise<StreamRequest['body']> {
    const { body } = request;
    if (!body) return undefined;
    if (this.#readsBodies && mayHoldParams(request)) {
      return withoutTransferParams(await body.read());
    }
    return { byteLength: body.byteLength, stream: body.stream() };
  }
}

/**
 * Whether a worker may read the body as JSON. Workers do not unpack requests, and a body without a content type is JSON
 * to some of them.
 */
function mayHoldParams({ contentTypes, contentEncodings }: PassthroughRequest): boolean {
  const isPacked = contentEncodings.some((coding) => !/^(?:identity)?$/i.test(coding.trim()));
  return (
    !isPacked && (contentTypes.length === 0 || contentTypes.some((type) => /json/i.test(type)))
  );
}

/**
 * Names of transfer params, and spellings that could hide them from a search: escapes of ASCII, and UTF-16 or UTF-32.
 */
const suspicious = /transfer_params|bootstrap_(?:host|port|room)|\\u00|\0/;

/** The same bytes unless they name hosts that a worker would contact (design.md decision 13). */
function withoutTransferParams(bytes: Buffer): Payload {
  try {
    return withoutClientTransferParams(JsonDocument.parse(bytes)).toRaw();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    // A worker's parser may be more generous than ours: what it could find must not be there.
    if (suspicious.test(bytes.toString('latin1'))) {
      throw new BadRequestError(`the request body: ${error.message}`, { cause: error });
    }
    return { byteLength: bytes.length, chunks: [bytes] };
  }
}

/** Paths climb: with `..` a client could leave the path prefix of `gateway.address`. */
const climbs = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){2}(?:[/\\]|%2f|%5c|$)/i;

/** The target for the gateway: an absolute one loses its origin. */
function checkTarget(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const end = path.search(/[?#]/);
  if (!path.startsWith('/') || climbs.test(end < 0 ? path : path.slice(0, end))) {
    throw new BadRequestError('the path is not valid', { code: 'INVALID_PATH' });
  }
  return path;
}
