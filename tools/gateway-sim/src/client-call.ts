import { type IncomingMessage, type ServerResponse } from 'node:http';
import { Transform } from 'node:stream';
import { type Agent } from 'undici';
import { answerText, forward } from './forward.ts';
import { headersWithout, strippedOnPublic } from './headers.ts';
import { type Leg } from './leg-log.ts';

/** Paths that a client may call, without their query. */
export const clientPath =
  /^(\/v1\/(chat\/completions|completions|responses|models)|\/inference\/v1\/generate)\/?$|^\/v1\/requests\/[^/]+$/;

/** A client's call: its phase and pin headers are taken off, then the coordinator gets it as it comes. */
export async function serveClient(
  { agent, coordinator }: { agent: Agent; coordinator: string | undefined },
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
): Promise<void> {
  const [path = '/'] = (request.url ?? '/').split('?');
  if (!clientPath.test(path)) {
    answerText(request, response, leg, 404, '');
    return;
  }
  if (coordinator === undefined) {
    answerText(request, response, leg, 503, 'no healthy upstream');
    return;
  }
  const { host, 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  const hasBody = encoding !== undefined || (length !== undefined && length !== '0');
  leg.upstream = coordinator;
  await forward(
    agent,
    request,
    response,
    {
      origin: coordinator,
      headers: {
        ...headersWithout(request.headers, strippedOnPublic),
        'x-request-id': leg.request_id,
        'x-forwarded-proto': 'http',
        'x-forwarded-for': [request.headers['x-forwarded-for'], request.socket.remoteAddress]
          .filter(Boolean)
          .join(', '),
        ...(host === undefined ? {} : { host }),
      },
      body: hasBody ? request.pipe(countUpload(leg)) : null,
      answerHeaders: {},
    },
    leg,
  );
}

const countUpload = (leg: Leg): Transform =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      leg.bytes_received += chunk.length;
      done(null, chunk);
    },
  });
