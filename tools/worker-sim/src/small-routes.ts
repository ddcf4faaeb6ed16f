import { type IncomingMessage } from 'node:http';
import { ApiError } from './api-error.ts';
import { type Engine } from './engine.ts';
import { isObject } from './exact-json.ts';
import { type Gauges } from './metrics.ts';
import { readBody } from './read-body.ts';
import { type Reply } from './reply.ts';

const textBytes = 16 * 1024 * 1024;

/** Serves what is neither inference nor admin. Throws ApiError 404 for an unknown route, 503 when dead. */
export async function serveSmallRoute(
  engine: Engine,
  route: string,
  request: IncomingMessage,
  reply: Reply,
): Promise<void> {
  engine.throwIfDead();
  switch (route) {
    case 'GET /health/ready':
      if (!engine.isReady) throw new ApiError(503, 'the model is loading');
      await reply.text(200, 'text/plain', 'ok\n');
      return;
    case 'GET /health':
      await reply.text(200, 'text/plain', 'ok\n');
      return;
    case 'GET /version':
      await reply.json(200, { version: '0.32.0-worker-sim' });
      return;
    case 'GET /metrics':
      await reply.text(200, 'text/plain; version=0.0.4', engine.metrics.text(gauges(engine)));
      return;
    case 'GET /v1/models':
      await reply.json(200, modelList(engine));
      return;
    case 'POST /tokenize':
      await tokenize(engine, await jsonBody(request), reply);
      return;
    case 'POST /detokenize':
      await detokenize(engine, await jsonBody(request), reply);
      return;
    default:
      throw new ApiError(404, 'Not Found');
  }
}

async function jsonBody(request: IncomingMessage): Promise<unknown> {
  const { bytes } = await readBody(request, textBytes);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new ApiError(400, 'Invalid JSON');
  }
}

async function tokenize(engine: Engine, body: unknown, reply: Reply): Promise<void> {
  const prompt = isObject(body) ? body['prompt'] : undefined;
  if (typeof prompt !== 'string') throw new ApiError(400, 'prompt must be a string');
  const tokens = [...(await (await engine.reader()).tokenize(prompt))];
  const { maxModelLen } = engine.tuning;
  await reply.json(200, { count: tokens.length, max_model_len: maxModelLen, tokens });
}

async function detokenize(engine: Engine, body: unknown, reply: Reply): Promise<void> {
  const tokens = isObject(body) ? body['tokens'] : undefined;
  if (!Array.isArray(tokens) || !tokens.every(Number.isInteger)) {
    throw new ApiError(400, 'tokens must be a list of integers');
  }
  const ids = Uint32Array.from(tokens as number[]);
  await reply.json(200, { prompt: await (await engine.reader()).detokenize(ids) });
}

const modelList = ({ models, tuning }: Engine): unknown => ({
  object: 'list',
  data: models.names.map((id) => ({
    id,
    object: 'model',
    created: 0,
    owned_by: 'worker-sim',
    root: models.default,
    parent: null,
    max_model_len: tuning.maxModelLen,
  })),
});

const gauges = ({ cache, config, slots }: Engine): Gauges => ({
  'vllm:num_requests_running': { value: slots.running },
  'vllm:num_requests_waiting': { value: slots.waiting },
  'vllm:kv_cache_usage_perc': { value: cache.used / cache.capacity },
  'vllm:cache_config_info': {
    value: 1,
    labels: { block_size: String(config.blockSize), num_gpu_blocks: String(config.kvBlocks) },
  },
  'vllm:lora_requests_info': {
    value: 0,
    labels: { max_lora: '0', running_lora_adapters: '', waiting_lora_adapters: '' },
  },
});
