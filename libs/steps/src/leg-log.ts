import { type Payload, redactBody, redactHeaders } from '@llm-d/gateway';
import { type RequestContext, type TimelineEntry } from '@llm-d/pipeline';

/** Of an answer that is handed on, what a log at level trace looks at. */
const maxTracedBytes = 65_536;

/** Writes down a leg that is sent: its headers at level debug, its body at level trace. */
export function logLegRequest(
  { log }: Pick<RequestContext, 'log'>,
  leg: string,
  request: { path: string; headers: readonly string[]; body: Payload },
): void {
  if (!log.isLevelEnabled?.('debug')) return;
  const { path, headers, body } = request;
  const shown = { leg, path, body_bytes: body.byteLength, headers: redactHeaders(headers) };
  log.debug(shown, 'leg sent');
  if (!log.isLevelEnabled('trace')) return;
  log.trace?.({ leg, body: redactBody(Buffer.concat(body.chunks)) }, 'body of the leg');
}

/** Writes down the answer of a leg: its status at level debug, its body at level trace. */
export function logLegAnswer(
  { log }: Pick<RequestContext, 'log'>,
  leg: string,
  answer: { status: number | undefined; bodyBytes: number | undefined; body: Uint8Array },
): void {
  if (!log.isLevelEnabled?.('debug')) return;
  const { status, bodyBytes, body } = answer;
  log.debug({ leg, status, body_bytes: bodyBytes }, 'leg answered');
  if (!log.isLevelEnabled('trace')) return;
  log.trace?.({ leg, body: redactBody(body) }, 'body of the answer');
}

/** Keeps the beginning of an answer that is handed on, for a log at level trace. */
export class AnswerHead {
  readonly #chunks: Uint8Array[] = [];
  #keptBytes = 0;

  /** Undefined unless the log is at level trace. */
  static of({ log }: Pick<RequestContext, 'log'>): AnswerHead | undefined {
    return log.isLevelEnabled?.('trace') ? new AnswerHead() : undefined;
  }

  /** Takes the next bytes; they must not change afterwards. */
  add(chunk: Uint8Array): void {
    if (this.#keptBytes >= maxTracedBytes) return;
    this.#chunks.push(chunk);
    this.#keptBytes += chunk.length;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

const noBytes = new Uint8Array();

/** Writes down an answer that was handed on. */
export function logRelayedAnswer(
  ctx: Pick<RequestContext, 'log'>,
  { name, status, responseBytes }: TimelineEntry,
  head: AnswerHead | undefined,
): void {
  logLegAnswer(ctx, name, { status, bodyBytes: responseBytes, body: head?.bytes ?? noBytes });
}
