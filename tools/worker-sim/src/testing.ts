import { crc32, deflateSync } from 'node:zlib';
import { afterEach } from '@jest/globals';
import { request } from 'undici';
import { isObject, type JsonObject, parseExact } from './exact-json.ts';
import { type WorkerOptions } from './options.ts';
import { startWorker, type Worker, type WorkerParts } from './worker.ts';

/** An answer with its body parsed, numbers kept digit by digit. */
export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  json: JsonObject;
}

/** Sends a JSON body and reads the whole answer. */
export async function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await request(url, {
    method: 'POST',
    ...(signal ? { signal } : {}),
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return readAnswer(response);
}

/** Fetches a path and reads the whole answer. */
export async function get(url: string): Promise<Answer> {
  return readAnswer(await request(url));
}

async function readAnswer(response: Awaited<ReturnType<typeof request>>): Promise<Answer> {
  const text = await response.body.text();
  let json: unknown;
  try {
    json = parseExact(text);
  } catch {
    json = undefined;
  }
  return {
    status: response.statusCode,
    headers: response.headers,
    text,
    json: isObject(json) ? json : {},
  };
}

/** Workers of one test file; all are closed after each test. */
export function workerFarm(): (options?: WorkerOptions, parts?: WorkerParts) => Promise<Worker> {
  const running: Worker[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((worker) => worker.close()));
  });
  return async (options = {}, parts = {}) => {
    const worker = await startWorker(options, parts);
    running.push(worker);
    return worker;
  };
}

/** Path of the tokens-in API. */
export const generatePath = '/inference/v1/generate';

/** The six fields that kv-nixl asks a prefill pod with. */
export const askPrefill = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

/** A prompt of so many ids, different for every seed. */
export const idsOf = (seed: number, count = 40): number[] =>
  Array.from({ length: count }, (_, index) => seed * 1000 + index);

/** The params as a coordinator sends them on: flags turned round. */
export const forDecode = (params: unknown): JsonObject => ({
  ...(isObject(params) ? params : {}),
  do_remote_decode: false,
  do_remote_prefill: true,
});

/** A copy without one member. */
export const without = (params: JsonObject, name: string): JsonObject =>
  Object.fromEntries(Object.entries(params).filter(([key]) => key !== name));

/** Prefills ids in the tokens-in form and returns the answered params. */
export async function prefill(worker: Worker, ids: readonly number[]): Promise<JsonObject> {
  const answer = await post(worker.url + generatePath, {
    token_ids: ids,
    sampling_params: { max_tokens: 1 },
    kv_transfer_params: askPrefill,
  });
  const params = answer.json['kv_transfer_params'];
  if (!isObject(params)) throw new Error(`prefill answered ${answer.status} ${answer.text}`);
  return params;
}

/** Decodes ids with these params in the tokens-in form. */
export const decode = (
  worker: Worker,
  ids: readonly number[],
  params: JsonObject,
): Promise<Answer> =>
  post(worker.url + generatePath, {
    token_ids: ids,
    sampling_params: { max_tokens: 4 },
    kv_transfer_params: params,
  });

/** A real PNG as a data: URL; another seed gives other bytes. */
export function pngUrl(width: number, height: number, seed = 0): string {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // 8 bits, RGB.
  header.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(width * 3, seed)]);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: height }, () => row)));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const file = Buffer.concat([
    signature,
    pngChunk('IHDR', header),
    pngChunk('IDAT', pixels),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
  return `data:image/png;base64,${file.toString('base64')}`;
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}
