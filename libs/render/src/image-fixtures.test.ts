import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { decode, type ExtData } from '@msgpack/msgpack';

import { writeAnswer } from './answer/write-answer.ts';
import { RenderError } from './errors.ts';
import { type ProfileOptions } from './profile.ts';
import { Renderer } from './renderer.ts';

const TESTDATA = join(import.meta.dirname, 'testdata');
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.jpg': 'image/jpeg',
  '.png': 'image/png',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
};

interface ImageCase {
  readonly id: string;
  readonly model: string;
  readonly model_id: string;
  readonly request: unknown;
  readonly status: number;
  readonly error?: {
    readonly error: { readonly type: string; readonly param: string | null };
  } | null;
  readonly prompt_text?: string;
  readonly echoed_model?: string | null;
  readonly token_runs: (number | [number, number])[];
  readonly features: {
    readonly mm_hashes: { readonly image: string[] };
    readonly mm_placeholders: { readonly image: unknown[] };
    readonly mm_metadata: unknown;
    readonly kwargs_data?: null;
    readonly kwargs_items?: RecordedItem[];
  } | null;
}

/** A recorded item of `kwargs_data`, unpacked. */
interface RecordedItem {
  readonly blob_bytes: number;
  readonly full_b64_file?: string;
  readonly image_grid_thw: { readonly values: number[]; readonly field: unknown };
  readonly pixel_values: {
    readonly dtype: string;
    readonly shape: number[];
    readonly sha256: string;
    readonly field: unknown;
  };
}

interface Blob {
  readonly image_grid_thw: { readonly data: [string, number[], ExtData]; readonly field: unknown };
  readonly pixel_values: { readonly data: [string, number[], ExtData]; readonly field: unknown };
}

interface Answer {
  readonly token_ids: number[];
  readonly features: {
    readonly kwargs_data: { readonly image: string[] } | null;
    readonly [key: string]: unknown;
  } | null;
}

/** Cases that differ on purpose, by the part of the id behind the model, with the reason. */
const allowed = JSON.parse(
  readFileSync(join(TESTDATA, 'images/differences.json'), 'utf8'),
) as Record<string, string>;

function isDifferent({ id }: ImageCase): boolean {
  return id.slice(id.indexOf('/') + 1) in allowed;
}

function readCases(file: string): ImageCase[] {
  return readFileSync(join(TESTDATA, 'images', file), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ImageCase);
}

function base64(file: string): string {
  return readFileSync(join(TESTDATA, 'images/files', file)).toString('base64');
}

/** The rules of `render-fixtures/README.md` that derive odd URLs from a file. */
const URL_RULES: Readonly<Record<string, (data: string) => string>> = {
  'bare-string': plainUrl,
  'no-type': plainUrl,
  'no-type-string': plainUrl,
  'input-image': plainUrl,
  'wrong-mime': (data) => `data:text/plain;base64,${data}`,
  'no-mime': (data) => `data:;base64,${data}`,
  'video-mime': (data) => `data:video/mp4;base64,${data}`,
  charset: (data) => `data:image/png;charset=utf-8;base64,${data}`,
  'urlsafe-b64': (data) =>
    `data:image/${`png;base64,${data}`.replaceAll('+', '-').replaceAll('/', '_')}`,
  'b64-newline': (data) => `${plainUrl(data).slice(0, 60)}\n${plainUrl(data).slice(60)}`,
  'b64-no-padding': (data) => {
    const bare = plainUrl(data).replace(/=+$/, '');
    return bare.slice(0, 4 * Math.floor(bare.length / 4) + 3);
  },
  'b64-bad-char': (data) => `${plainUrl(data).slice(0, 60)}*${plainUrl(data).slice(61)}`,
  'upper-data': (data) => plainUrl(data).replace('data:', 'DATA:'),
  'uuid-empty': plainUrl,
};

function plainUrl(data: string): string {
  return `data:image/png;base64,${data}`;
}

/** Puts the recorded files back into a request. */
function revive(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('derived_from' in value && 'rule' in value) {
    const rule = URL_RULES[String(value.rule)];
    if (rule === undefined) throw new Error(`no rule ${String(value.rule)}`);
    return rule(base64(String(value.derived_from)));
  }
  if ('file' in value && typeof value.file === 'string') {
    const { file, ...part } = value;
    const type = MEDIA_TYPES[extname(file)] ?? 'application/octet-stream';
    return { ...part, image_url: { url: `data:${type};base64,${base64(file)}` } };
  }
  return value;
}

function expand(runs: ImageCase['token_runs']): number[] {
  return runs.flatMap((run) =>
    typeof run === 'number' ? [run] : Array.from({ length: run[1] }, () => run[0]),
  );
}

function decodeBlob(base64: string): Blob {
  return decode(Buffer.from(base64, 'base64')) as Blob;
}

function tensorBytes({ data }: ExtData): Uint8Array {
  if (typeof data === 'function') throw new Error('the decoder gives bytes');
  return data;
}

function checkItem(base64: string, item: RecordedItem): void {
  const blob = decodeBlob(base64);
  const { image_grid_thw: grid, pixel_values: pixels } = blob;
  const [gridDtype, gridShape, gridValues] = grid.data;
  expect([gridDtype, gridShape, grid.field]).toEqual(['int64', [3], item.image_grid_thw.field]);
  expect(
    [...new BigInt64Array(Uint8Array.from(tensorBytes(gridValues)).buffer)].map(Number),
  ).toEqual(item.image_grid_thw.values);
  const [dtype, shape, values] = pixels.data;
  const sha256 = createHash('sha256').update(tensorBytes(values)).digest('hex');
  const { field } = pixels;
  expect({ dtype, shape, sha256, field }).toEqual({
    dtype: item.pixel_values.dtype,
    shape: item.pixel_values.shape,
    sha256: item.pixel_values.sha256,
    field: item.pixel_values.field,
  });
  expect(Buffer.byteLength(base64, 'base64')).toBe(item.blob_bytes);
  if (item.full_b64_file !== undefined) {
    const whole = readFileSync(join(TESTDATA, 'images/blobs', item.full_b64_file), 'utf8');
    expect(blob).toEqual(decodeBlob(whole));
  }
}

async function check(renderer: Renderer, recorded: ImageCase): Promise<void> {
  const body = Buffer.from(JSON.stringify(JSON.parse(JSON.stringify(recorded.request), revive)));
  if (recorded.status !== 200) {
    const error: unknown = await renderer.chat(body, { tensors: true }).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(RenderError);
    const { status, type, param } = error as RenderError;
    expect({ status, type, param }).toEqual({
      status: recorded.status,
      type: recorded.error?.error.type,
      param: recorded.error?.error.param,
    });
    return;
  }
  const prompt = await renderer.chat(body, { tensors: true });
  const text = Buffer.concat(writeAnswer(prompt, { requestId: 'id' })).toString();
  const answer = JSON.parse(text) as Answer;
  if (recorded.prompt_text !== undefined) expect(prompt.promptText).toBe(recorded.prompt_text);
  if (recorded.echoed_model !== undefined) expect(prompt.model).toBe(recorded.echoed_model);
  expect(answer.token_ids).toEqual(expand(recorded.token_runs));
  if (recorded.features === null) {
    expect(answer.features).toBeNull();
    return;
  }
  const { mm_hashes, mm_placeholders, mm_metadata, kwargs_items } = recorded.features;
  const { kwargs_data: kwargs, ...features } = answer.features ?? {};
  expect(features).toEqual({ mm_hashes, mm_placeholders, mm_metadata });
  if (kwargs_items === undefined) {
    expect(kwargs).toBeNull();
    return;
  }
  expect(kwargs?.image).toHaveLength(kwargs_items.length);
  kwargs_items.forEach((item, at) => {
    expect(prompt.images[at]?.gridThw).toEqual(item.image_grid_thw.values);
    checkItem(kwargs?.image[at] ?? '', item);
  });
}

function describeFixtures(
  model: string,
  cases: readonly ImageCase[],
  count: number,
  options: ProfileOptions,
): void {
  describe(`image requests recorded from vLLM 0.33 with ${model}`, () => {
    let renderer: Renderer;
    beforeAll(async () => {
      renderer = await Renderer.load({ trustRequestMmKwargs: true, ...options });
    });
    afterAll(async () => {
      await renderer.close();
    });

    it('covers all recorded cases', () => {
      expect(cases).toHaveLength(count);
    });

    it.each(cases.filter((recorded) => !isDifferent(recorded)))(
      '$id answers as recorded',
      (recorded) => check(renderer, recorded),
    );

    const different = cases.filter(isDifferent);
    if (different.length > 0) {
      it.each(different)('$id is listed as different, and is', async (recorded) => {
        await expect(check(renderer, recorded)).rejects.toThrow();
      });
    }
  });
}

const recorded = readCases('expected.jsonl');
for (const model of ['qwen2-vl', 'qwen2_5-vl', 'qwen3-vl']) {
  const directory = join(TESTDATA, 'models', model);
  describeFixtures(
    model,
    recorded.filter((entry) => entry.model === model),
    120,
    { directory },
  );
}
const bfloat16 = readCases('expected-bf16.jsonl');
for (const model of ['qwen2_5-vl', 'qwen3-vl']) {
  describeFixtures(
    `${model} and bfloat16`,
    bfloat16.filter((entry) => entry.model === `${model}-bf16`),
    12,
    {
      directory: join(TESTDATA, 'models', model),
      servedModelNames: [`${model}-bf16`],
      hashModelId: bfloat16.find((entry) => entry.model === `${model}-bf16`)?.model_id ?? '',
      pixelDtype: 'bfloat16',
    },
  );
}
describeFixtures('the string format and sha256', readCases('expected-string.jsonl'), 22, {
  directory: join(TESTDATA, 'models/qwen3-vl'),
  contentFormat: 'string',
  hashAlgorithm: 'sha256',
  servedModelNames: ['vl-alias'],
  hashModelId: 'qwen3-vl',
  maxImages: 3,
});
