import { type IncomingMessage } from 'node:http';
import { requestIdHeader } from '@llm-d/gateway';
import { type Logger } from '@llm-d/pipeline';
import { type HttpSink } from '@llm-d/service';

/** Writes down a request as it came, at level debug: selected headers, never an id that was refused. */
export function logArrival(log: Logger, request: IncomingMessage, own: ArrivalFacts): void {
  if (!log.isLevelEnabled?.('debug')) return;
  const { method, headers } = request;
  const clientId = headers[requestIdHeader];
  const phaseHeader = own.phaseHeader.toLowerCase();
  log.debug(
    {
      method,
      path: own.path,
      body_bytes: own.bodyBytes,
      headers: {
        'content-type': headers['content-type'],
        [requestIdHeader]:
          clientId === undefined || clientId === own.requestId ? clientId : '<redacted>',
        [phaseHeader]: headers[phaseHeader],
        prefer: headers['prefer'],
      },
    },
    'request received',
  );
}

/** What `logArrival` tells besides the headers. */
export interface ArrivalFacts {
  readonly path: string;
  readonly requestId: string;
  readonly bodyBytes: number;
  /** `pipeline.wire.phase_header`. */
  readonly phaseHeader: string;
}

/** Writes down an answer of ours or of a worker, at level debug. */
export function logAnswer(
  log: Logger,
  { status, contentType }: Pick<HttpSink, 'status' | 'contentType'>,
  requestId: string,
): void {
  if (!log.isLevelEnabled?.('debug')) return;
  const headers = { 'content-type': contentType, [requestIdHeader]: requestId };
  log.debug({ status, headers }, 'request answered');
}
