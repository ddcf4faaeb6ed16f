import { type Dispatcher, request } from 'undici';

/** One call of a client. */
export interface Question {
  readonly path: string;
  /** An object is sent as JSON. */
  readonly body?: object | string | Buffer;
  readonly requestId?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** POST when absent. */
  readonly method?: Dispatcher.HttpMethod;
  readonly signal?: AbortSignal;
}

/** What a client got. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** False when the connection broke before the end of the body. */
  readonly isWhole: boolean;
}

/** Sends a question; resolves when the headers of the answer are there. */
export function open(url: string, question: Question): Promise<Dispatcher.ResponseData> {
  const { path, body, requestId, headers, method = 'POST', signal } = question;
  const isBytes = typeof body === 'string' || Buffer.isBuffer(body);
  return request(url + path, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
      ...headers,
    },
    body: body === undefined || isBytes ? (body ?? null) : JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

/** Sends a question and reads the answer to its end, which may be a broken connection. */
export async function ask(url: string, question: Question): Promise<Answer> {
  const { statusCode: status, headers, body } = await open(url, question);
  const pieces: Buffer[] = [];
  let isWhole = true;
  try {
    for await (const piece of body) pieces.push(piece as Buffer);
  } catch {
    isWhole = false;
  }
  return { status, headers, body: Buffer.concat(pieces), isWhole };
}

/** The payloads of an event stream that came whole or in part; a last event that is cut counts too. */
export function eventsOf({ body }: Pick<Answer, 'body'>): string[] {
  return body
    .toString('utf8')
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.replace(/^data: /, ''));
}
