#!/usr/bin/env node
/** Makes random but valid requests over random configurations; the same seed gives the same file. */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '300' },
    out: { type: 'string' },
  },
});
if (!options.out) {
  console.error(
    'usage: node generate.mjs --seed <n> --count <n> --out <file.jsonl>   (then: run.mjs --cases <file> --record)',
  );
  process.exit(2);
}

let state = Number(options.seed) * 0x9e3779b1;
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const from = (list) => list[below(list.length)];
const chance = (p) => random() < p;
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const maybe = (p, key, make) => (chance(p) ? { [key]: make() } : {});

/** A number that is written exactly so. */
class Literal {
  constructor(text) {
    this.text = text;
  }
}
const bigNumbers = [
  '9007199254740993',
  '-9007199254740995',
  '18446744073709551615',
  '4634343214213523454',
  '1.0',
  '0.10',
  '1e2',
  '2.50E+3',
  '-0',
  '1234567890.1234567890',
  '5e-7',
];
const number = () =>
  chance(0.5)
    ? new Literal(from(bigNumbers))
    : chance(0.5)
      ? below(100000)
      : Math.round(random() * 1000) / 64;

const words = [
  'alpha',
  'beta',
  'gamma',
  '\u4e16\u754c',
  '\u{1f30d}',
  'caf\u00e9',
  '<b>&amp;</b>',
  'line\nbreak',
  'tab\t',
  'quote"',
  'back\\slash',
  'a/b',
  '\u2028',
  '\u0000x',
  '{"json": true}',
  '',
  ' ',
];
const phrase = () => times(1 + below(6), () => from(words)).join(from([' ', '', ', ']));
const name = () =>
  from(['a', 'b', 'zeta', 'Key', 'with blank', '10', '9', 'd\u00e9j\u00e0', 'a.b', 'x_y', '']) +
  (chance(0.3) ? below(50) : '');

function anything(depth = 0) {
  const kind = below(depth > 3 ? 4 : 6);
  if (kind === 0) return phrase();
  if (kind === 1) return number();
  if (kind === 2) return from([true, false, null]);
  if (kind === 3) return below(1000);
  if (kind === 4) return times(below(4), () => anything(depth + 1));
  return Object.fromEntries(times(below(4), () => [name(), anything(depth + 1)]));
}

// One-pixel images: the palette entry carries the colour, so each is another file.
function gif() {
  const bytes = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');
  bytes[13] = below(256);
  bytes[14] = below(256);
  return `data:image/gif;base64,${bytes.toString('base64')}`;
}

const imagePart = () => {
  const image = { url: gif(), ...maybe(0.3, 'detail', () => from(['low', 'high', 'auto'])) };
  return {
    type: 'image_url',
    image_url: chance(0.3) ? Object.fromEntries(Object.entries(image).reverse()) : image,
    ...maybe(0.1, 'cache_control', () => ({ type: 'ephemeral' })),
  };
};
const textPart = () => ({
  type: 'text',
  text: phrase(),
  ...maybe(0.1, 'annotations', () => [anything(2)]),
});

function message(images) {
  const role = from(['system', 'user', 'assistant', 'user', 'tool', 'developer']);
  if (images.length === 0 && chance(0.6)) {
    const content = chance(0.1) ? null : phrase();
    return {
      role,
      content,
      ...maybe(0.15, 'name', () => 'n'),
      ...(role === 'assistant' && chance(0.4)
        ? {
            tool_calls: [
              { id: 't1', type: 'function', function: { name: 'f', arguments: '{"x": 1.0}' } },
            ],
          }
        : {}),
    };
  }
  const parts = [...times(below(3), textPart), ...images];
  if (chance(0.15)) parts.push({ type: from(['refusal', 'thinking', 'file']), data: anything(2) });
  return { role, content: parts.sort(() => random() - 0.5) };
}

const tool = () => ({
  type: 'function',
  function: {
    name: from(['get', 'set']),
    description: phrase(),
    parameters: {
      type: 'object',
      properties: Object.fromEntries(
        times(1 + below(3), () => [
          name(),
          { type: from(['string', 'number']), ...maybe(0.3, 'const', number) },
        ]),
      ),
      required: times(below(2), name),
    },
  },
});

const sampling = () => ({
  ...maybe(0.4, 'max_tokens', () => 1 + below(200)),
  ...maybe(0.2, 'min_tokens', () => below(20)),
  ...maybe(0.3, 'temperature', () => (chance(0.3) ? new Literal('0.70') : random())),
  ...maybe(0.2, 'top_p', () => 0.9),
  ...maybe(
    0.3,
    'seed',
    () => new Literal(from(['9007199254740993', '42', '-1', '18446744073709551615'])),
  ),
  ...maybe(0.2, 'stop', () => (chance(0.5) ? phrase() : times(1 + below(2), phrase))),
  ...maybe(0.1, 'logit_bias', () => ({ [below(50000)]: number() })),
});
const streaming = () =>
  chance(0.4)
    ? {
        stream: true,
        ...maybe(0.6, 'stream_options', () => ({
          include_usage: chance(0.7),
          ...maybe(0.3, 'continuous_usage_stats', () => true),
        })),
      }
    : maybe(0.3, 'stream', () => false);
const vendor = () =>
  Object.fromEntries(times(below(4), () => [`x_${name() || 'empty'}`, anything()]));

function chatBody() {
  const imageCount = chance(0.5) ? 1 + below(4) : 0;
  const images = times(imageCount, imagePart);
  if (imageCount > 1 && chance(0.2)) images[1] = structuredClone(images[0]);
  const messages = times(1 + below(4), () => message([]));
  while (images.length > 0)
    messages.splice(
      below(messages.length + 1),
      0,
      message(images.splice(0, 1 + below(images.length))),
    );
  return {
    images: imageCount,
    body: shuffle({
      model: from(['m', 'org/model-7b', 'model:v1']),
      messages,
      ...sampling(),
      ...streaming(),
      ...vendor(),
      ...maybe(0.2, 'max_completion_tokens', () => 1 + below(300)),
      ...maybe(0.1, 'n', () => 2 + below(3)),
      ...maybe(0.2, 'tools', () => times(1 + below(2), tool)),
      ...maybe(0.1, 'tool_choice', () => 'auto'),
      ...maybe(0.15, 'response_format', () => ({
        type: 'json_schema',
        json_schema: { name: 's', schema: anything(1) },
      })),
      ...maybe(0.15, 'logprobs', () => true),
      ...maybe(0.1, 'top_logprobs', () => 3),
      ...maybe(0.1, 'mm_processor_kwargs', () => ({ max_pixels: below(1000000) })),
      ...maybe(0.1, 'user', phrase),
      ...maybe(0.1, 'metadata', () => anything(1)),
    }),
  };
}

function completionsBody() {
  const prompt = from([
    () => phrase(),
    () => times(1 + below(12), () => below(50000)),
    () => times(1 + below(3), phrase),
    () => times(1 + below(2), () => times(2, () => below(9))),
  ])();
  return {
    images: 0,
    body: shuffle({
      model: 'm',
      prompt,
      ...sampling(),
      ...streaming(),
      ...vendor(),
      ...maybe(0.1, 'echo', () => true),
      ...maybe(0.1, 'suffix', phrase),
      ...maybe(0.1, 'logprobs', () => 2),
    }),
  };
}

function generateBody() {
  const count = chance(0.5) ? 1 + below(3) : 0;
  const ids = [1];
  const holders = times(count, () => {
    const holder = { offset: ids.length, length: 1 + below(4) };
    ids.push(...times(holder.length, () => 32000));
    if (chance(0.4)) ids.push(below(9000));
    return holder;
  });
  ids.push(...times(1 + below(6), () => below(50000)));
  const features = {
    mm_hashes: { image: times(count, (i) => `h${i}-${below(1000)}`) },
    mm_placeholders: { image: holders },
    ...maybe(0.7, 'kwargs_data', () => ({
      image: times(count, () =>
        chance(0.2) ? null : Buffer.from(phrase()).toString('base64') || 'QQ==',
      ),
    })),
  };
  return {
    images: 0,
    body: shuffle({
      model: 'm',
      token_ids: ids,
      ...(count ? { features } : maybe(0.3, 'features', () => from([null, {}]))),
      ...maybe(0.7, 'sampling_params', () => ({
        ...sampling(),
        ...maybe(0.2, 'extra_args', () => ({ vendor: anything(1) })),
      })),
      ...streaming(),
      ...vendor(),
      ...maybe(0.2, 'cache_salt', () => 's'),
    }),
  };
}

function shuffle(object) {
  return Object.fromEntries(
    Object.entries(object)
      .map((entry) => [random(), entry])
      .sort((a, b) => a[0] - b[0])
      .map(([, entry]) => entry),
  );
}

/** Writes JSON in one of several hands: compact, spaced, indented; with or without escapes. */
function write(value, hand) {
  const gap = () =>
    hand.blanks === 0 ? '' : hand.blanks === 1 ? ' ' : from(['', ' ', '\n', '  ', '\t']);
  const text = (string) => {
    let out = JSON.stringify(string);
    if (hand.escape)
      out = out.replaceAll(
        /[\u0080-\uffff]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
      );
    if (hand.slash) out = out.replaceAll('/', '\\/');
    return out;
  };
  if (value instanceof Literal) return value.text;
  if (typeof value === 'string') return text(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value))
    return `[${value.map((item) => gap() + write(item, hand) + gap()).join(',')}]`;
  return `{${Object.entries(value)
    .map(([key, item]) => `${gap()}${text(key)}${gap()}:${gap()}${write(item, hand)}${gap()}`)
    .join(',')}}`;
}

const pipelines = {
  usual: ['replace-media-urls', 'render', 'encode', 'prefill', 'decode'],
  serial: ['replace-media-urls', 'render', { encode: { max_parallel: 1 } }, 'prefill', 'decode'],
  conditional: [
    'replace-media-urls',
    'render',
    'conditional-decode',
    'encode',
    'prefill',
    'decode',
  ],
};
const configurations = [];
for (const kv of ['kv-nixl', 'kv-shared-storage']) {
  for (const ec of ['ec-nixl', 'ec-shared-storage']) {
    for (const openai of [true, false])
      configurations.push({
        pipeline: {
          kv_connector: kv,
          ec_connector: ec,
          use_openai_format: openai,
          steps: pipelines.usual,
        },
      });
  }
}
configurations.push(
  { pipeline: { steps: pipelines.serial } },
  { pipeline: { steps: pipelines.conditional } },
  { pipeline: { use_openai_format: false, steps: pipelines.conditional } },
);

const failure = () => from([400, 404, 422, 429, 500, 503]);
const secret = { error: { message: 'SECRET upstream words' } };

function scriptFor(config, images, path) {
  const script = {};
  const isSerial = config.pipeline.steps === pipelines.serial;
  if (config.pipeline.steps === pipelines.conditional) {
    const kind = below(4);
    if (kind === 1) script.conditional = { json: { served: number() instanceof Literal } };
    if (kind === 2) script.conditional = { status: failure(), json: { error: 'from the worker' } };
    if (kind === 3) script.conditional = { status: 412, text: 'SECRET' };
  }
  if (chance(0.04)) script.render = { status: failure(), json: secret };
  if (chance(0.04) && (images === 1 || (images > 0 && isSerial)))
    script.encode = [...times(below(images), () => ({})), { status: failure(), json: secret }];
  else if (chance(0.1))
    script.encode = { json: { ec_transfer_params: from([null, {}, 'text', undefined]) } };
  if (chance(0.06)) script.prefill = { status: failure(), json: secret };
  else if (chance(0.3))
    script.prefill = {
      content_type: 'application/json',
      text: write(
        {
          id: 'p',
          kv_transfer_params: from([
            null,
            {},
            'x',
            {
              remote_engine_id: 'e',
              remote_block_ids: [[new Literal('9007199254740993'), 2]],
              remote_request_id: 'r',
              remote_host: 'h',
              remote_port: 5600,
              vendor: anything(1),
            },
          ]),
        },
        { blanks: below(3), escape: chance(0.5) },
      ),
    };
  if (chance(0.06))
    script.decode = { status: failure(), json: { error: { message: 'from the worker' } } };
  else if (chance(0.1))
    script.decode = {
      chunks: times(1 + below(4), (i) => `data: ${i} ${phrase().replaceAll('\n', ' ')}\n\n`),
    };
  return path && Object.keys(script).length > 0 ? script : undefined;
}

const lines = times(Number(options.count), (index) => {
  const [path, make] = from([
    ['/v1/chat/completions', chatBody],
    ['/v1/chat/completions', chatBody],
    ['/v1/chat/completions', chatBody],
    ['/v1/completions', completionsBody],
    ['/inference/v1/generate', generateBody],
  ]);
  const { body, images } = make();
  const config = from(configurations);
  const raw = write(body, { blanks: below(3), escape: chance(0.3), slash: chance(0.2) });
  const headers = {
    'x-request-id': `gen-${options.seed}-${index}`,
    ...maybe(0.2, 'authorization', () => 'Bearer t'),
    ...maybe(0.1, 'x-tenant', () => 'blue'),
  };
  const script = scriptFor(config, images, path);
  return JSON.stringify({
    name: `${String(index).padStart(3, '0')} ${path}`,
    spec: '4',
    config,
    ...(script ? { script } : {}),
    request: { ...(path === '/v1/chat/completions' ? {} : { path }), headers, raw },
  });
});
writeFileSync(options.out, `${lines.join('\n')}\n`);
