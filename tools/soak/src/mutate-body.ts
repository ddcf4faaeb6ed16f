import { type Random } from './random.ts';

/** Texts that have broken parsers, limits or assumptions. */
const texts = [
  ...[
    'null',
    'true',
    '[]',
    '{}',
    '""',
    '"x"',
    '-1',
    '1.5',
    '1e400',
    '1e19',
    '-0',
    '01',
    '+1',
    'NaN',
  ],
  ...['9007199254740993', '18446744073709551616', '0.1e-400', '"\\ud83d"', '"\\u0000"', '"\\x"'],
  ...['"data:image/png;base64,AAAA"', '"data:;base64,"', '"http://169.254.169.254/"', '"file:///"'],
  ...['"kv_transfer_params":{"remote_host":"h"},', '"bootstrap_host":"h",', '"model":"other",'],
  ...['"n":9,', '"stream":true,', '"stream":false,', '"__proto__":{"x":1},', '"constructor":1,'],
  ...['"ec_transfer_params":{},', '"prompt":null,', '"messages":0,', '"best_of":3,', '"store":1,'],
  ...[',', ':', '"', '\\', '{', '}', '[', ']', '\u0000', '\uFEFF', '\u2028', '/*', '//', '\n\n'],
];

/** Values that replace one of a good body. */
const values: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 2 ** 53, 1e300, '', 'x', 'data:image/png;base64,AA==', [], {}],
  ...[
    [[]],
    [null],
    [1, 'a'],
    [[1], ['b']],
    { type: 'image_url' },
    { url: 7 },
    [{}],
    'a'.repeat(5000),
  ],
  ...[{ type: 'image_url', image_url: { url: 'ftp://x/' } }, { file_id: 'f' }, '\ud800', '\u0007'],
];

/** A good body, changed at some places; the result may be anything. */
export function mutateBody(body: object, random: Random): Buffer {
  if (random.percent(3)) return randomBytes(random);
  const changed = random.percent(60) ? changeValue(structuredClone(body), random) : body;
  let bytes: Buffer = Buffer.from(JSON.stringify(changed));
  if (random.percent(2)) bytes = nest(bytes, random);
  if (random.percent(50)) return bytes;
  for (let left = 1 + random.below(4); left > 0; left--) bytes = changeBytes(bytes, random);
  return bytes;
}

/** Replaces, removes or doubles something at a random depth. */
function changeValue(root: unknown, random: Random): unknown {
  if (typeof root !== 'object' || root === null || random.percent(15)) return random.pick(values);
  const keys = Object.keys(root);
  if (keys.length === 0) return random.pick(values);
  const key = random.pick(keys);
  const node = root as Record<string, unknown>;
  const action = random.below(100);
  if (action < 15) {
    if (Array.isArray(root)) root.splice(Number(key), 1);
    else Reflect.deleteProperty(node, key);
  } else if (action < 30 && Array.isArray(root)) root.push(structuredClone(node[key]));
  else if (action < 40) node[random.pick(unusualNames)] = random.pick(values);
  else node[key] = changeValue(node[key], random);
  return root;
}

const unusualNames = [
  ...['kv_transfer_params', 'ec_transfer_params', 'bootstrap_room', 'tokens', 'request_id'],
  ...['previous_response_id', 'conversation', 'background', 'features', 'token_ids', 'best_of'],
  ...['prompt_logprobs', 'echo', 'stop', 'user', '', 'a b', 'é', '0', 'uuid', 'content', 'type'],
];

function changeBytes(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length + 1);
  const end = Math.min(bytes.length, at + 1 + random.below(12));
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (random.below(6)) {
    case 0:
      return Buffer.concat([head, Buffer.from(random.pick(texts)), tail]);
    case 1:
      return Buffer.concat([head, bytes.subarray(end)]);
    case 2:
      return Buffer.concat([head, Buffer.from([random.below(256)]), tail]);
    case 3:
      return Buffer.concat([bytes.subarray(0, end), tail]);
    case 4:
      return random.percent(30) ? Buffer.from(head) : bytes;
    default: {
      const copy = Buffer.from(bytes);
      if (at < copy.length) copy[at] = random.below(256);
      return copy;
    }
  }
}

/** Wraps a body in more containers than a recursive reader can take. */
function nest(bytes: Buffer, random: Random): Buffer {
  const depth = 10 ** (1 + random.below(5));
  const [open, close] = random.percent(50) ? ['[', ']'] : ['{"a":', '}'];
  const value = Buffer.concat([
    Buffer.from(open.repeat(depth)),
    bytes,
    Buffer.from(random.percent(80) ? close.repeat(depth) : ''),
  ]);
  if (random.percent(50)) return value;
  const text = '{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":';
  return Buffer.concat([Buffer.from(text), value, Buffer.from('}')]);
}

function randomBytes(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)));
}
