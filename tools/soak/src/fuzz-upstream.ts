import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';

type Json = Readonly<Record<string, unknown>>;

/** A host that only our own answers name: what else stands in transfer params came from a client. */
const ownHost = 'kv.internal';
const kvParams = {
  ...{ do_remote_prefill: true, do_remote_decode: false, tp_size: 1 },
  ...{ remote_block_ids: [[1, 2]], remote_engine_id: 'engine', remote_request_id: 'request' },
  ...{ remote_host: ownHost, remote_port: 5600 },
};
/** Paths whose bodies are legs. */
const legPath =
  /^\/(?:v1\/(?:chat\/completions|completions|responses)|inference\/v1\/generate)(?:\/render)?$/;
const transferNames = ['kv_transfer_params', 'ec_transfer_params'] as const;
const bootstrapNames = ['bootstrap_host', 'bootstrap_port', 'bootstrap_room'] as const;

/**
 * Render service and gateway in one, which never fail: every error that a client sees is the coordinator's own. Checks
 * what reaches it.
 */
export class FuzzUpstream {
  /** What was wrong with a leg; a leg that is right says nothing. */
  onViolation: (what: string) => void = () => {};
  legs = 0;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  /** Resolves with the address. */
  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    this.legs++;
    const path = request.url ?? '';
    // A client may ask for the path of render; then it is passed through to a decode pod.
    const phase = String(request.headers['epp-profile'] ?? 'render');
    const isLeg = legPath.test(path) && (phase === 'render' || !path.endsWith('/render'));
    if (!isLeg || request.method !== 'POST') {
      if (phase !== 'decode') this.onViolation(`passthrough with the phase ${phase}`);
      response.end('{}');
      return;
    }
    const body = this.#check(phase, Buffer.concat(chunks));
    // In a body of another API it is the client's own business.
    if (path.includes('/v1/completions') && body['prompt'] === null) {
      this.onViolation(`${phase}: prompt null`);
    }
    const isProbe = request.headers['prefer'] === 'if-available';
    if (isProbe && this.legs % 2 === 0) {
      response.writeHead(412).end();
      return;
    }
    const isStream = body['stream'] === true && (isProbe || phase === 'decode');
    response.writeHead(200, {
      'content-type': isStream ? 'text/event-stream' : 'application/json',
    });
    response.end(isStream ? 'data: {"choices":[]}\n\ndata: [DONE]\n\n' : answer(phase, path, body));
  }

  #check(phase: string, bytes: Buffer): Json {
    let body: unknown;
    try {
      body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    } catch {
      this.onViolation(
        `${phase}: the body is not JSON: ${bytes.toString('base64').slice(0, 2000)}`,
      );
    }
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return {};
    const object = body as Json;
    for (const place of [
      object,
      at(object, 'sampling_params', 'extra_args'),
      at(object, 'vllm_xargs'),
    ])
      this.#checkParams(phase, place);
    return object;
  }

  #checkParams(phase: string, place: Json): void {
    for (const name of transferNames) {
      const text = JSON.stringify(place[name] ?? null);
      const isOurs = /^(?:null|\{\})$/.test(text) || /do_remote_decode|peer/.test(text);
      const host = /"remote_host":("[^"]*")/.exec(text)?.[1] ?? `"${ownHost}"`;
      if (!isOurs || host !== `"${ownHost}"`) this.onViolation(`${phase}: foreign ${name}`);
    }
    for (const name of bootstrapNames) if (name in place) this.onViolation(`${phase}: ${name}`);
  }
}

function answer(phase: string, path: string, body: Json): string {
  switch (phase) {
    case 'render':
      return rendered(path, countImages(path, body));
    case 'encode':
      return JSON.stringify({ ec_transfer_params: { h0: { peer: ownHost } } });
    case 'prefill':
      return JSON.stringify({ kv_transfer_params: kvParams });
    default:
      return JSON.stringify({ id: 'x', choices: [{ index: 0, text: 'ok' }], usage: {} });
  }
}

function rendered(path: string, images: number): string {
  const list = <T>(make: (i: number) => T): T[] =>
    Array.from({ length: images }, (_, i) => make(i));
  const prompt = {
    token_ids: [1, ...list(() => 9), 2],
    features: {
      mm_hashes: { image: list((i) => `h${i}`) },
      mm_placeholders: { image: list((i) => ({ offset: 1 + i, length: 1 })) },
      kwargs_data: { image: list(() => 'AA==') },
    },
  };
  return JSON.stringify(path.includes('/v1/completions') ? [prompt] : prompt);
}

/** Image parts where the coordinator looks for them. */
function countImages(path: string, body: Json): number {
  const isChat = path.includes('/chat/');
  const items = isChat ? body['messages'] : body['input'];
  const fields = isChat ? ['content'] : ['content', 'output'];
  const type = isChat ? 'image_url' : 'input_image';
  const parts = asList(items).flatMap((item) =>
    fields.flatMap((field) => asList(asObject(item)[field])),
  );
  return parts.filter((part) => asObject(part)['type'] === type).length;
}

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const asObject = (value: unknown): Json =>
  typeof value === 'object' && value !== null ? (value as Json) : {};
const at = (object: Json, ...names: string[]): Json =>
  names.reduce((found, name) => asObject(found[name]), object);
