import { describe, expect, it } from '@jest/globals';
import { exactNumber, isObject, type JsonObject } from './exact-json.ts';
import { loadReader } from './prompt-reader.ts';
import {
  type Answer,
  askPrefill,
  forDecode,
  generatePath,
  pngUrl,
  post,
  without,
  workerFarm,
} from './testing.ts';
import { type Worker } from './worker.ts';

const start = workerFarm();

async function trio(): Promise<{ encoder: Worker; prefiller: Worker; decoder: Worker }> {
  return {
    encoder: await start({ role: 'encode', podName: 'encode-1' }),
    prefiller: await start({ role: 'prefill', podName: 'prefill-1' }),
    decoder: await start({ role: 'decode', podName: 'decode-1' }),
  };
}

const chatPath = '/v1/chat/completions';
const question = 'What is on these pictures, please?';
const imagePart = (url: string, more: JsonObject = {}): JsonObject => ({
  type: 'image_url',
  image_url: { url },
  ...more,
});
const photo = imagePart(pngUrl(640, 480));
const other = imagePart(pngUrl(200, 300, 7));
const capped = { max_tokens: 1, max_completion_tokens: 1, stream: false };
const chat = (parts: readonly JsonObject[], more: JsonObject = {}): JsonObject => ({
  model: 'sim/model',
  messages: [{ role: 'user', content: [...parts, { type: 'text', text: question }] }],
  ...more,
});

/** One encode leg as a coordinator sends it; answers the descriptor map. */
async function encode(worker: Worker, part: JsonObject): Promise<JsonObject> {
  const answer = await post(worker.url + chatPath, {
    model: 'sim/model',
    messages: [{ role: 'user', content: [part] }],
    ...capped,
  });
  const params = answer.json['ec_transfer_params'];
  if (!isObject(params)) throw new Error(`encode answered ${answer.status} ${answer.text}`);
  return params;
}

const prefill = (
  worker: Worker,
  parts: readonly JsonObject[],
  ec: JsonObject | undefined,
): Promise<Answer> =>
  post(
    worker.url + chatPath,
    chat(parts, {
      ...capped,
      kv_transfer_params: askPrefill,
      ...(ec === undefined ? {} : { ec_transfer_params: ec }),
    }),
  );

const decode = (worker: Worker, parts: readonly JsonObject[], prefilled: Answer): Promise<Answer> =>
  post(
    worker.url + chatPath,
    chat(parts, { kv_transfer_params: forDecode(prefilled.json['kv_transfer_params']) }),
  );

const contentOf = ({ json }: Answer): string =>
  (json['choices'] as { message: { content: string } }[])[0]?.message.content ?? '';
const messageOf = ({ json }: Answer): string => JSON.stringify(json['error']);

describe('encode, prefill, decode', () => {
  it('answers from what really arrived, and strands nothing', async () => {
    const { encoder, prefiller, decoder } = await trio();
    const ec = { ...(await encode(encoder, photo)), ...(await encode(encoder, other)) };
    const hashes = Object.keys(ec);
    const prefilled = await prefill(prefiller, [photo, other], ec);
    expect(prefilled.status).toBe(200);
    const stamped = [photo, other].map((part, index) => ({ ...part, uuid: hashes[index] }));

    const answer = await decode(decoder, stamped, prefilled);

    expect(answer.status).toBe(200);
    const promptTokens = decoder.requests()[0]?.promptTokens ?? 0;
    expect(contentOf(answer)).toBe(
      `I received ${promptTokens} prompt tokens and 2 images: ` +
        `640x480, hash ${hashes[0]?.slice(0, 8)}…; 200x300, hash ${hashes[1]?.slice(0, 8)}…; ` +
        `KV pulled from prefill-1 (${Math.ceil(promptTokens / 16)} blocks); your last words: '${question}'.`,
    );
    expect(answer.json['usage']).toMatchObject({ prompt_tokens: promptTokens });
    expect(prefiller.requests()[0]?.ec).toEqual(
      hashes.map((hash) => ({ hash, source: 'external', peer: 'encode-1' })),
    );
    expect(prefiller.state().leases).toMatchObject({ held: 0, pulled: 1, expired: 0 });
    expect(encoder.state().embeddings.held.map(({ pulls }) => pulls)).toEqual([1, 1]);
    expect(prefiller.state().counters['sim_local_encode_total']).toBe(0);
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(0);
  });

  it('the encode answer has the shape of vLLM 0.32', async () => {
    const encoder = await start({ role: 'encode' });
    const answer = await post(encoder.url + chatPath, {
      messages: [{ role: 'user', content: [photo] }],
      max_tokens: 4,
    });
    const [image] = encoder.requests()[0]?.images ?? [];
    expect(answer.json).toMatchObject({
      choices: [{ finish_reason: 'stop', message: { content: '' } }],
      usage: { completion_tokens: 0 },
      kv_transfer_params: null,
      ec_transfer_params: {
        [image?.hash ?? '']: {
          item_indices: [0],
          metadata: { image_grid_thw: [1, expect.any(Number), expect.any(Number)] },
          peer_host: '127.0.0.1',
          peer_port: encoder.ecPort,
          size_bytes: (image?.length ?? 0) * 2048 * 2,
          shape: [image?.length, 2048],
        },
      },
    });
  });

  it('equal images give equal descriptors on one pod and different ones on two', async () => {
    const { encoder } = await trio();
    const second = await start({ role: 'encode' });
    const first = await encode(encoder, photo);
    expect(await encode(encoder, photo)).toEqual(first);
    expect(Object.keys(await encode(second, photo))).toEqual(Object.keys(first));
    expect(await encode(second, photo)).not.toEqual(first);
  });

  it('prefill in the tokens-in form and decode in the chat form agree on the prompt', async () => {
    const { encoder, prefiller, decoder } = await trio();
    const ec = await encode(encoder, photo);
    const reader = await loadReader(['sim/model']);
    const rendered = await reader.chat(Buffer.from(JSON.stringify(chat([photo]))));
    const prefilled = await post(prefiller.url + generatePath, {
      token_ids: [...rendered.tokenIds],
      sampling_params: { max_tokens: 1 },
      features: featuresOf(rendered.images, null),
      kv_transfer_params: askPrefill,
      ec_transfer_params: ec,
    });
    expect(prefilled.status).toBe(200);
    expect((await decode(decoder, [photo], prefilled)).status).toBe(200);
    expect(decoder.requests()[0]?.kv?.source).toBe('external');
    expect(decoder.requests()[0]?.promptDigests).toEqual(prefiller.requests()[0]?.promptDigests);
  });

  it('decode with another image of the same size is another prompt', async () => {
    const { encoder, prefiller, decoder } = await trio();
    const prefilled = await prefill(prefiller, [photo], await encode(encoder, photo));
    const answer = await decode(decoder, [imagePart(pngUrl(640, 480, 99))], prefilled);
    expect(answer.status).toBe(500);
    expect(messageOf(answer)).toContain('other-prompt');
  });

  it('a uuid that is not the media hash is refused and counted', async () => {
    const { encoder, prefiller, decoder } = await trio();
    const ec = { ...(await encode(encoder, photo)), ...(await encode(encoder, other)) };
    const [first, second] = Object.keys(ec);
    const prefilled = await prefill(prefiller, [photo, other], ec);
    const answer = await decode(
      decoder,
      [
        { ...photo, uuid: second },
        { ...other, uuid: first },
      ],
      prefilled,
    );
    expect(answer.status).toBe(400);
    expect(decoder.state().counters['sim_uuid_mismatch_total']).toBe(1);
  });
});

const featuresOf = (
  images: readonly { hash: string; offset: number; length: number }[],
  kwargs: string | null,
): JsonObject => ({
  mm_hashes: { image: images.map(({ hash }) => hash) },
  mm_placeholders: { image: images.map(({ offset, length }) => ({ offset, length })) },
  kwargs_data: { image: images.map(() => kwargs) },
});

describe('a wrong descriptor fails the prefill leg', () => {
  const change = (ec: JsonObject, edit: (descriptor: JsonObject) => JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(ec).map(([hash, value]) => [hash, isObject(value) ? edit(value) : value]),
    );
  it.each<{ name: string; wrong: (ec: JsonObject) => JsonObject | undefined; says: string }>([
    { name: 'no params at all', wrong: () => undefined, says: 'encoder cache miss' },
    {
      name: 'a null descriptor',
      wrong: (ec) => change(ec, () => null as never),
      says: 'encoder cache miss',
    },
    {
      name: 'a nonce that went through a double',
      wrong: (ec) => JSON.parse(JSON.stringify(ec)) as JsonObject,
      says: 'not what encode answered',
    },
    {
      name: 'one digit of the nonce altered',
      wrong: (ec) =>
        change(ec, (descriptor) => ({
          ...descriptor,
          nonce: exactNumber(String(BigInt(JSON.stringify(descriptor['nonce'])) + 2n)),
        })),
      says: 'not what encode answered',
    },
    {
      name: 'a dropped field',
      wrong: (ec) => change(ec, (params) => without(params, 'metadata')),
      says: 'not what encode answered',
    },
    {
      name: 'another shape',
      wrong: (ec) => change(ec, (descriptor) => ({ ...descriptor, shape: [1, 2048] })),
      says: 'placeholder tokens',
    },
    {
      name: 'a dead peer',
      wrong: (ec) => change(ec, (descriptor) => ({ ...descriptor, peer_port: 9 })),
      says: 'encoder cache miss',
    },
    {
      name: 'a hash that is not in the prompt',
      wrong: (ec) => ({ ...ec, ['f'.repeat(64)]: Object.values(ec)[0] }),
      says: 'not in this prompt',
    },
  ])('$name', async ({ wrong, says }) => {
    const { encoder, prefiller } = await trio();
    const ec = await encode(encoder, photo);
    const answer = await prefill(prefiller, [photo], wrong(ec));
    expect(answer.status).toBe(500);
    expect(messageOf(answer)).toContain(says);
    expect((await prefill(prefiller, [photo], ec)).status).toBe(200);
  });

  it('descriptors swapped between two images', async () => {
    const { encoder, prefiller } = await trio();
    const same = imagePart(pngUrl(640, 480, 3));
    const [[hash, descriptor] = ['', {}]] = Object.entries(await encode(encoder, photo));
    const [[hash2, descriptor2] = ['', {}]] = Object.entries(await encode(encoder, same));
    const answer = await prefill(prefiller, [photo, same], {
      [hash]: descriptor2,
      [hash2]: descriptor,
    });
    expect(answer.status).toBe(500);
    expect(messageOf(answer)).toContain('not what encode answered');
  });

  it('the descriptor of another pod under this pod’s address', async () => {
    const { encoder, prefiller } = await trio();
    const second = await start({ role: 'encode' });
    await encode(second, photo);
    const ec = change(await encode(encoder, photo), (descriptor) => ({
      ...descriptor,
      peer_port: second.ecPort,
    }));
    expect((await prefill(prefiller, [photo], ec)).status).toBe(500);
  });

  it('an embedding that was dropped after its time to live', async () => {
    const encoder = await start({ role: 'encode', ecTtlMs: 1 });
    const prefiller = await start({ role: 'prefill' });
    const ec = await encode(encoder, photo);
    while (encoder.state().embeddings.held.length > 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await prefill(prefiller, [photo], ec)).status).toBe(500);
    expect(encoder.state().embeddings.expiredUnpulled).toBe(1);
  });

  it('without SIM_EC_STRICT the image is encoded on the prefill pod, and counted', async () => {
    const prefiller = await start({ role: 'prefill', ecStrict: false });
    expect((await prefill(prefiller, [photo], undefined)).status).toBe(200);
    expect(prefiller.state().counters['sim_local_encode_total']).toBe(1);
  });
});

describe('the tokens-in form without an encode leg', () => {
  const ids = Array.from({ length: 20 }, (_, index) => index + 1);
  const image = { hash: 'a'.repeat(64), offset: 4, length: 4 };
  const generate = (worker: Worker, kwargs: string | null): Promise<Answer> =>
    post(worker.url + generatePath, {
      token_ids: ids,
      sampling_params: { max_tokens: 1 },
      features: featuresOf([image], kwargs),
      kv_transfer_params: askPrefill,
    });

  it('encodes inline from processor output, and is counted', async () => {
    const prefiller = await start({ role: 'prefill' });
    expect((await generate(prefiller, 'AAAA')).status).toBe(200);
    expect(prefiller.state().counters['sim_local_encode_total']).toBe(1);
  });

  it('a null is served from the store when the hash is known, else 500; the pod lives', async () => {
    const prefiller = await start({ role: 'prefill' });
    const unknown = await generate(prefiller, null);
    expect(unknown.status).toBe(500);
    expect(unknown.json['error']).toEqual({
      message: 'Internal server error',
      type: 'InternalServerError',
      param: null,
      code: 500,
    });
    await generate(prefiller, 'AAAA');
    expect((await generate(prefiller, null)).status).toBe(200);
    expect(prefiller.requests().at(-1)?.ec[0]?.source).toBe('held');
  });
});

it('without an encoder cache connector prefill encodes itself', async () => {
  const prefiller = await start({ role: 'prefill', ecConnector: 'none' });
  expect((await prefill(prefiller, [photo], undefined)).status).toBe(200);
  expect(prefiller.state().counters['sim_local_encode_total']).toBe(1);
});
