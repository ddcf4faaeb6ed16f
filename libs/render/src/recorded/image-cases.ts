import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';

import { decode, type ExtData } from '@msgpack/msgpack';

import { type ProfileOptions } from '../profile.ts';
import {
  readDifferences,
  readLines,
  TESTDATA,
  type Answer,
  type RecordedCase,
  type RecordedError,
  type RecordedServer,
} from './recorded-case.ts';

const PATH = '/v1/chat/completions/render';
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
  readonly error?: RecordedError | null;
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

interface AnswerObject {
  readonly token_ids: number[];
  readonly features: {
    readonly kwargs_data: { readonly image: string[] } | null;
    readonly [key: string]: unknown;
  } | null;
  readonly model: string | null;
}

/** By the part of the id behind the model. */
const differences = readDifferences('images/differences.json');

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
  assert.deepEqual([gridDtype, gridShape, grid.field], ['int64', [3], item.image_grid_thw.field]);
  assert.deepEqual(
    [...new BigInt64Array(Uint8Array.from(tensorBytes(gridValues)).buffer)].map(Number),
    item.image_grid_thw.values,
  );
  const [dtype, shape, values] = pixels.data;
  const sha256 = createHash('sha256').update(tensorBytes(values)).digest('hex');
  const { field } = pixels;
  assert.deepEqual(
    { dtype, shape, sha256, field },
    {
      dtype: item.pixel_values.dtype,
      shape: item.pixel_values.shape,
      sha256: item.pixel_values.sha256,
      field: item.pixel_values.field,
    },
  );
  assert.equal(Buffer.byteLength(base64, 'base64'), item.blob_bytes);
  if (item.full_b64_file !== undefined) {
    const whole = readFileSync(join(TESTDATA, 'images/blobs', item.full_b64_file), 'utf8');
    assert.deepEqual(blob, decodeBlob(whole));
  }
}

function toCase(recorded: ImageCase): RecordedCase {
  const { id, request } = recorded;
  return {
    id,
    path: PATH,
    body: () => Buffer.from(JSON.stringify(JSON.parse(JSON.stringify(request), revive))),
    difference: differences[id.slice(id.indexOf('/') + 1)],
    check: (answer) => {
      check(recorded, answer);
    },
  };
}

function check(recorded: ImageCase, { status, body, promptText }: Answer): void {
  assert.equal(status, recorded.status, body.slice(0, 1000));
  const answer: unknown = JSON.parse(body);
  if (status !== 200) {
    const { type, param } = (answer as RecordedError).error;
    assert.deepEqual(
      { type, param },
      { type: recorded.error?.error.type, param: recorded.error?.error.param },
    );
    return;
  }
  const { token_ids, model, features } = answer as AnswerObject;
  if (promptText !== undefined && recorded.prompt_text !== undefined) {
    assert.equal(promptText, recorded.prompt_text);
  }
  if (recorded.echoed_model !== undefined) assert.equal(model, recorded.echoed_model);
  assert.deepEqual(token_ids, expand(recorded.token_runs));
  if (recorded.features === null || features === null) {
    assert.equal(features, recorded.features);
    return;
  }
  const { mm_hashes, mm_placeholders, mm_metadata, kwargs_items: items } = recorded.features;
  const { kwargs_data: kwargs, ...others } = features;
  assert.deepEqual(others, { mm_hashes, mm_placeholders, mm_metadata });
  if (items === undefined) {
    assert.equal(kwargs, null);
    return;
  }
  assert.equal(kwargs?.image.length, items.length);
  items.forEach((item, at) => {
    checkItem(kwargs.image[at] ?? '', item);
  });
}

function imageServer(
  name: string,
  file: string,
  model: string,
  options: ProfileOptions = {},
): RecordedServer {
  const recorded = (readLines(`images/${file}.jsonl`) as ImageCase[]).filter(
    (entry) => file === 'expected-string' || entry.model === name,
  );
  return {
    name,
    options: {
      directory: join(TESTDATA, 'models', model),
      servedModelNames: [name],
      hashModelId: recorded[0]?.model_id ?? '',
      trustRequestMmKwargs: true,
      ...options,
    },
    cases: recorded.map(toCase),
  };
}

const bfloat16 = { pixelDtype: 'bfloat16' } as const;

/** The six servers whose image answers were recorded. */
export const imageServers: readonly RecordedServer[] = [
  imageServer('qwen2-vl', 'expected', 'qwen2-vl'),
  imageServer('qwen2_5-vl', 'expected', 'qwen2_5-vl'),
  imageServer('qwen3-vl', 'expected', 'qwen3-vl'),
  imageServer('qwen2_5-vl-bf16', 'expected-bf16', 'qwen2_5-vl', bfloat16),
  imageServer('qwen3-vl-bf16', 'expected-bf16', 'qwen3-vl', bfloat16),
  imageServer('vl-alias', 'expected-string', 'qwen3-vl', {
    contentFormat: 'string',
    hashAlgorithm: 'sha256',
    hashModelId: 'qwen3-vl',
    maxImages: 3,
  }),
];
