/**
 * The least that a cascade can cost on Node: the same legs with equivalent bodies as the coordinator's, and nothing
 * else. It trusts the form of the bodies that `bodies.ts` makes: small members before `messages`, image parts written
 * without blanks. No validation, no logs, no handling of errors.
 *
 * Arguments: port, render address, gateway address.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Pool } from 'undici';

const [port, renderAddress = '', gatewayAddress = ''] = process.argv.slice(2);
const options = { connections: null, pipelining: 1 };
const [render, gateway] = [new Pool(renderAddress, options), new Pool(gatewayAddress, options)];
const path = '/v1/chat/completions';

/** Longer bodies are cheaper to send in pieces than to join. */
const joinedBytes = 65_536;

interface RenderAnswer {
  token_ids: number[];
  features?: { mm_hashes: { image: string[] } };
}

interface WorkerAnswer {
  ec_transfer_params?: object;
  kv_transfer_params?: object;
}

/** Text and bytes as what undici sends, with their length. */
function toBody(pieces: readonly (string | Buffer)[]): { body: Buffer; length: number } {
  const chunks = pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece));
  const length = chunks.reduce((total, chunk) => total + chunk.length, 0);
  // undici sends any iterable of bytes chunk by chunk; its types only know streams.
  const body = length <= joinedBytes ? Buffer.concat(chunks) : (chunks as unknown as Buffer);
  return { body, length };
}

function leg(pieces: readonly (string | Buffer)[], phase?: string) {
  const { body, length } = toBody(pieces);
  const headers = {
    'content-type': 'application/json',
    'content-length': String(length),
    ...(phase ? { 'epp-profile': phase } : {}),
  };
  return { path: phase ? path : `${path}/render`, method: 'POST' as const, headers, body };
}

async function ask(pool: Pool, request: ReturnType<typeof leg>): Promise<unknown> {
  const answer = await pool.request(request);
  return answer.body.json();
}

/** Where the image parts lie: start of each, and the index of its closing brace. */
function imageParts(body: Buffer): [start: number, close: number][] {
  const parts: [number, number][] = [];
  for (let at = 0; (at = body.indexOf('{"type":"image_url"', at)) >= 0;) {
    const close = body.indexOf('}}', at) + 1;
    parts.push([at, close]);
    at = close;
  }
  return parts;
}

async function encode(model: string, part: Buffer): Promise<object> {
  const start = `{"model":${model},"messages":[{"role":"user","content":[`;
  const end = ']}],"max_tokens":1,"max_completion_tokens":1,"stream":false}';
  const answer = await ask(gateway, leg([start, part, end], 'encode'));
  return (answer as WorkerAnswer).ec_transfer_params ?? {};
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const messagesAt = body.indexOf('"messages"');
  const head = JSON.parse(`${body.toString('utf8', 0, messagesAt - 1)}}`) as { model: string };
  const messages = body.subarray(messagesAt);

  const rendered = (await ask(render, leg([body]))) as RenderAnswer;
  const parts = imageParts(body);
  const hashes = rendered.features?.mm_hashes.image ?? [];
  const model = JSON.stringify(head.model);
  const ec = await Promise.all(
    parts.map(([start, close]) => encode(model, body.subarray(start, close + 1))),
  );

  const prefillHead = JSON.stringify({
    ...head,
    ...{ max_tokens: 1, max_completion_tokens: 1, stream: false },
    kv_transfer_params: {
      ...{ do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null },
      ...{ remote_block_ids: null, remote_host: null, remote_port: null },
    },
    ...(ec.length > 0 ? { ec_transfer_params: Object.assign({}, ...ec) as object } : {}),
  });
  const prefill = leg([`${prefillHead.slice(0, -1)},`, messages], 'prefill');
  const { kv_transfer_params: kv } = (await ask(gateway, prefill)) as WorkerAnswer;

  const decodeHead = JSON.stringify({
    ...head,
    kv_transfer_params: { ...kv, do_remote_decode: false, do_remote_prefill: true },
  });
  const pieces: (string | Buffer)[] = [`${decodeHead.slice(0, -1)},`];
  let copied = messagesAt;
  for (const [i, [, close]] of parts.entries()) {
    pieces.push(body.subarray(copied, close), `,"uuid":${JSON.stringify(hashes[i])}`);
    copied = close;
  }
  pieces.push(body.subarray(copied));
  await gateway.stream(leg(pieces, 'decode'), ({ statusCode, headers }) => {
    response.writeHead(statusCode, { 'content-type': String(headers['content-type']) });
    return response;
  });
}

createServer((request, response) => {
  if (request.method === 'GET') response.end('ok');
  else void serve(request, response);
}).listen(Number(port), '127.0.0.1');
