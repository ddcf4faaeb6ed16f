/**
 * The fake upstream: render service, gateway with its workers, and media origin, each on its own port.
 * It records every call and answers from the script of the running case, or with a standard answer
 * that depends on nothing but the request.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const phaseHeaders = ['epp-profile', 'x-llm-d-epp-profile'];

export class FakeUpstream {
  calls = [];
  script = {};
  #open = new Set();
  #servers = [];
  #arrivals = new Map();
  /** Request ids of the running case and of those before it. */
  #ids = [];
  #pastIds = new Set();

  async listen(mediaAddress) {
    this.render = `http://127.0.0.1:${await this.#serve('render', '127.0.0.1')}`;
    this.gateway = `http://127.0.0.1:${await this.#serve('gateway', '127.0.0.1')}`;
    this.media = mediaAddress
      ? `http://${mediaAddress}:${await this.#serve('media', mediaAddress)}`
      : 'http://192.0.2.1:9';
    this.closed = `http://127.0.0.1:${await freePort()}`;
  }

  async close() {
    for (const server of this.#servers) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  /** `ids` are the request ids that the case sends, if it does. */
  begin(script = {}, ids = []) {
    for (const id of this.#ids) this.#pastIds.add(id);
    this.#ids = ids;
    this.calls = [];
    this.script = script;
    this.#arrivals.clear();
  }

  /** Waits until no call is being answered any more. */
  async settle(limitMs) {
    const end = Date.now() + limitMs;
    while (this.#open.size > 0 && Date.now() < end) await sleep(10);
    const hung = this.#open.size;
    for (const response of this.#open) response.destroy();
    this.#open.clear();
    return hung;
  }

  async #serve(service, host) {
    const server = createServer(
      { keepAliveTimeout: 60_000, requestTimeout: 0 },
      (request, response) => {
        this.#answer(service, request, response).catch(() => response.destroy());
      },
    );
    this.#servers.push(server);
    await new Promise((resolve) => server.listen(0, host, resolve));
    return server.address().port;
  }

  async #answer(service, request, response) {
    const headers = headerMap(request.rawHeaders);
    if (this.#isLate(headers['x-request-id'])) {
      response.destroy();
      return;
    }
    const phase =
      service === 'gateway'
        ? phaseHeaders.map((name) => headers[name]).find((v) => v !== undefined)
        : undefined;
    const call = {
      service,
      phase,
      method: request.method,
      path: request.url,
      headers,
      text: '',
      at: performance.now(),
    };
    this.calls.push(call);
    this.#open.add(response);
    const script = this.script;
    response.on('close', () => {
      this.#open.delete(response);
      if (!call.finished) call.cut = true;
    });
    const parts = [];
    try {
      for await (const part of request) parts.push(part);
    } catch {
      return;
    }
    call.text = Buffer.concat(parts).toString('utf8');
    await this.#play(call, pick(script, call, this.#arrivals), response);
  }

  /**
   * Whether a call belongs to a case that is over. A leg that was aborted may have been written already, and is read
   * here when the client has its answer and the next case has begun.
   */
  #isLate(id = '') {
    const isOf = (own) => id === own || id.startsWith(`${own}-`);
    return !this.#ids.some(isOf) && [...this.#pastIds].some(isOf);
  }

  async #play(call, answer, response) {
    if (answer.delay_ms) await sleep(answer.delay_ms);
    if (response.destroyed) return;
    if (answer.hang) return;
    if (answer.reset === 'before-headers') {
      call.finished = true;
      response.socket.resetAndDestroy();
      return;
    }
    const pieces = piecesOf(answer, call);
    const isJson =
      answer.chunks === undefined && answer.text === undefined && answer.base64 === undefined;
    const isStream = answer.chunks !== undefined || (pieces.length > 1 && isJson);
    const headers = {
      'content-type':
        answer.content_type ??
        (isStream ? 'text/event-stream' : isJson ? 'application/json' : 'text/plain'),
      ...(call.service === 'gateway' ? { 'x-fake-origin': 'worker' } : {}),
      ...answer.headers,
    };
    for (const [name, value] of Object.entries(headers)) if (value === null) delete headers[name];
    const size = pieces.reduce(
      (sum, piece) => sum + (Buffer.isBuffer(piece) ? piece.length : 0),
      0,
    );
    if (answer.content_length !== undefined) headers['content-length'] = answer.content_length;
    else if (!isStream && answer.chunked !== true) headers['content-length'] = size;
    response.writeHead(answer.status ?? 200, headers);
    call.answer = Buffer.concat(pieces.filter((piece) => Buffer.isBuffer(piece))).toString('utf8');
    if (answer.reset === 'after-headers' || isStream) response.flushHeaders();
    if (answer.reset === 'after-headers') {
      await sleep(30);
      call.finished = true;
      response.socket.resetAndDestroy();
      return;
    }
    for (const piece of pieces) {
      if (response.destroyed) return;
      if (Buffer.isBuffer(piece)) response.write(piece);
      else if (piece.wait !== undefined) await sleep(piece.wait);
      else if (piece.hang) return;
      else if (piece.reset) {
        await sleep(30);
        call.finished = true;
        response.socket.resetAndDestroy();
        return;
      } else if (piece.close) {
        await sleep(30);
        call.finished = true;
        response.socket.destroy();
        return;
      }
    }
    call.lastPieceAt = performance.now();
    call.finished = true;
    response.end();
  }
}

/** Below the ports that the system gives away: no server or call of another job can come by this one meanwhile. */
const [firstPort, portCount] = [20_000, 10_000];
let nextPort = Math.floor(Math.random() * portCount);

/** A port of the loopback that nothing listens on, another one each time. */
export async function freePort() {
  for (let left = portCount; left > 0; left--) {
    const port = firstPort + (nextPort++ % portCount);
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
  throw new Error('no port is free');
}

/** Lower-cased names; the values of a repeated header are joined, in order. */
function headerMap(raw) {
  const out = {};
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i].toLowerCase();
    out[name] = out[name] === undefined ? raw[i + 1] : `${out[name]}, ${raw[i + 1]}`;
  }
  return out;
}

/** The key of `script` that answers this call. */
export function roleOf(call) {
  if (call.service !== 'gateway') return call.service;
  if (call.phase === 'decode' && call.headers.prefer === 'if-available') return 'conditional';
  if (call.phase === 'prefill' && call.headers.prefer === 'reserve-endpoint') return 'reserve';
  return call.phase ?? 'no-phase';
}

function pick(script, call, arrivals) {
  const role = roleOf(call);
  const entry =
    script[role] ??
    (role === 'conditional' && script.conditional === undefined
      ? { status: 412, text: 'not here' }
      : {});
  const options =
    call.service === 'media' ? (entry[call.path] ?? { status: 404, text: 'no such file' }) : entry;
  if (Array.isArray(options)) {
    const index = arrivals.get(role) ?? 0;
    arrivals.set(role, index + 1);
    return options[Math.min(index, options.length - 1)];
  }
  if (options.match)
    return (
      options.match.find(
        (option) => option.contains === undefined || call.text.includes(option.contains),
      ) ?? {}
    );
  return options;
}

function piecesOf(answer, call) {
  if (answer.chunks) {
    return answer.chunks.map((chunk) => {
      if (typeof chunk === 'string') return Buffer.from(chunk);
      return chunk.base64 === undefined ? chunk : Buffer.from(chunk.base64, 'base64');
    });
  }
  if (answer.text !== undefined) return [Buffer.from(answer.text)];
  if (answer.base64 !== undefined) return [Buffer.from(answer.base64, 'base64')];
  if (answer.json !== undefined) return [Buffer.from(JSON.stringify(answer.json))];
  if (answer.bytes !== undefined) return [Buffer.alloc(answer.bytes, 'x')];
  const standard = standardAnswer(call);
  if (Array.isArray(standard)) return standard.map((event) => Buffer.from(event));
  return [Buffer.from(JSON.stringify(answer.merge ? { ...standard, ...answer.merge } : standard))];
}

const hashOf = (url) => `mm-${createHash('sha256').update(url).digest('hex').slice(0, 12)}`;
const lengthOf = (hash) => 2 + (hash.charCodeAt(4) % 3);

const partTypes = ['image_url', 'input_image'];

function imageUrls(body, path) {
  const parts = (list) =>
    Array.isArray(list)
      ? list.flatMap((item) =>
          [item?.content, item?.output].flatMap((p) => (Array.isArray(p) ? p : [])),
        )
      : [];
  return parts(path.includes('/responses') ? body?.input : body?.messages)
    .filter((part) => partTypes.includes(part?.type))
    .map((part) => part.image_url?.url ?? part.image_url)
    .filter((url) => typeof url === 'string');
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function standardAnswer(call) {
  const body = parse(call.text);
  switch (roleOf(call)) {
    case 'render':
      return call.path.includes('/v1/completions')
        ? [renderCompletion(body)].map((r) => JSON.stringify([r]))
        : renderChat(body, call.path);
    case 'encode': {
      const hash =
        body.features?.mm_hashes?.image?.[0] ?? hashOf(imageUrls(body, call.path)[0] ?? '');
      return { id: 'enc', ec_transfer_params: { [hash]: descriptor(hash) } };
    }
    case 'prefill':
      return {
        id: 'pre',
        kv_transfer_params: {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_engine_id: 'engine-7',
          remote_block_ids: [[4, 5, 6]],
          remote_host: '10.0.2.1',
          remote_port: 5600,
          remote_request_id: `${call.headers['x-request-id']}-p`,
          tp_size: 1,
        },
      };
    case 'reserve':
      return {};
    default:
      return decodeAnswer(body, call.path);
  }
}

function renderChat(body, path) {
  const hashes = imageUrls(body, path).map(hashOf);
  const ids = [1];
  const placeholders = hashes.map((hash) => {
    const placeholder = { offset: ids.length, length: lengthOf(hash) };
    ids.push(...Array(placeholder.length).fill(32000));
    return placeholder;
  });
  ids.push(2345, 6789);
  return {
    request_id: 'rendered',
    model: 'ignored',
    token_ids: ids,
    features: {
      mm_hashes: { image: hashes },
      mm_placeholders: { image: placeholders },
      kwargs_data: {
        image: hashes.map((hash) => Buffer.from(`tensor ${hash}`).toString('base64')),
      },
    },
    sampling_params: { temperature: 0 },
    stream: false,
    priority: 0,
    kv_transfer_params: null,
  };
}

function renderCompletion(body) {
  return {
    request_id: 'rendered',
    token_ids: [1, 9000 + (String(body.prompt).length % 1000), 2],
    model: 'ignored',
  };
}

function descriptor(hash) {
  const n = (hash.codePointAt(hash.length - 1) ?? 0) % 100;
  return {
    peer_host: `10.0.1.${n}`,
    peer_port: 7000 + n,
    size_bytes: 4096 * (n + 1),
    nixl_agent_metadata_b64: 'bml4bA==',
  };
}

function decodeAnswer(body, path) {
  const object = path.includes('/chat/')
    ? 'chat.completion'
    : path.includes('/completions')
      ? 'text_completion'
      : 'generate';
  if (body.stream === true) {
    const events = ['Hel', 'lo \u4e16\u754c', ' \u{1f30d}'].map((text) => ({
      id: 'dec',
      object: `${object}.chunk`,
      choices: [{ index: 0, delta: { content: text } }],
    }));
    const usage = body.stream_options?.include_usage
      ? [{ id: 'dec', choices: [], usage: { prompt_tokens: 3, completion_tokens: 3 } }]
      : [];
    return [...events, ...usage]
      .map((event) => `data: ${JSON.stringify(event)}\n\n`)
      .concat('data: [DONE]\n\n');
  }
  return {
    id: 'dec',
    object,
    model: body.model,
    choices: [
      { index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  };
}
