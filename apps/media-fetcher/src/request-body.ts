import { type MediaFetchOptions } from '@llm-d/media';
import { RequestError } from '@llm-d/service';
import { z } from 'zod';

const bytes = z.int().positive();

/** Options of a call; what is looser than the configuration counts as the configuration. */
const callOptions = z.strictObject({
  timeout_ms: z.int().positive().optional(),
  /** Of one item: of every modality, or by modality. */
  max_bytes: z
    .union([
      bytes,
      z.strictObject({
        image: bytes.optional(),
        video: bytes.optional(),
        audio: bytes.optional(),
      }),
    ])
    .optional(),
  /** Of all items together. */
  max_total_bytes: bytes.optional(),
  /** Downloads at the same time. */
  max_concurrent: z.int().positive().optional(),
  max_redirects: z.int().nonnegative().optional(),
  content_check: z.enum(['off', 'sniff', 'strict']).optional(),
  /** Hosts as in the configuration; both have to allow one. */
  allowed_domains: z.array(z.string()).optional(),
  /** By modality; both lists have to allow a type, an empty one allows any. */
  allowed_types: z
    .strictObject({
      image: z.array(z.string()).optional(),
      video: z.array(z.string()).optional(),
      audio: z.array(z.string()).optional(),
    })
    .optional(),
  /** Closes the private ranges where the configuration opens them. */
  allow_private_networks: z.boolean().optional(),
  max_retries: z.int().nonnegative().optional(),
  /** With `content_check: strict`: decodes every image once. */
  strict_decode: z.boolean().optional(),
  /** Image types to be converted; both lists have to name one. */
  transcode_image_types: z.array(z.string()).optional(),
  /** Bytes that the caller has inline; they count towards the total. */
  inline_bytes: z.int().nonnegative().optional(),
  transform: z
    .discriminatedUnion('mode', [
      z.strictObject({ mode: z.literal('off') }),
      z.strictObject({
        mode: z.literal('fit'),
        factor: z.int().min(1).max(1024),
        min_pixels: z.int().positive(),
        max_pixels: z.int().positive(),
        output: z.enum(['auto', 'jpeg', 'webp_lossless', 'png']).default('auto'),
        background: z
          .string()
          .regex(/^#[0-9a-f]{6}$/i)
          .default('#ffffff'),
        bake_orientation: z.boolean().default(false),
      }),
    ])
    .optional(),
  cache: z.enum(['default', 'reload', 'no-store', 'only-if-cached']).optional(),
  return: z.enum(['base64', 'data_uri', 'none']).optional(),
});

const modality = z.enum(['image', 'video', 'audio']).default('image');

/** Body of `POST /v1/media/fetch`. */
const fetchBody = z.strictObject({
  url: z.string(),
  modality,
  options: callOptions.default({}),
  if_none_match: z.string().optional(),
});

/** Most items of one batch. */
export const maxBatchItems = 64;

/** Body of `POST /v1/media/batch`. */
const batchBody = z.strictObject({
  items: z
    .array(z.strictObject({ id: z.string().max(128).optional(), url: z.string(), modality }))
    .min(1)
    .max(maxBatchItems),
  options: callOptions.default({}),
  fail_fast: z.boolean().default(true),
});

/** Options of a call as they come. */
export type CallOptions = z.output<typeof callOptions>;
/** One reference to fetch. */
export type FetchBody = z.output<typeof fetchBody>;
/** References to fetch together. */
export type BatchBody = z.output<typeof batchBody>;

/** What a body may have beside its inline media, in bytes. */
const maxPlainBytes = 1024 * 1024;

/** The longest body there can be: every byte that one request may have, inline. */
export function maxInlineBodyBytes({ maxTotalDownloadBytes }: MediaFetchOptions): number {
  return Math.ceil(maxTotalDownloadBytes / 3) * 4 + maxPlainBytes + maxBatchItems * 1024;
}

/** Reads the body of a fetch. @throws RequestError that names the member at fault. */
export function readFetchBody(body: Buffer): FetchBody {
  const read = parse(fetchBody, body);
  checkSize(body, [read]);
  return read;
}

/** Reads the body of a batch; see `readFetchBody`. */
export function readBatchBody(body: Buffer): BatchBody {
  const read = parse(batchBody, body);
  checkSize(body, read.items);
  return read;
}

/** Inline media has a limit of its own, as media. */
function checkSize(body: Buffer, items: readonly { readonly url: string }[]): void {
  const inline = items.filter(({ url }) => /^data:/i.test(url));
  const inlineBytes = inline.reduce((sum, { url }) => sum + url.length, 0);
  if (body.length - inlineBytes > maxPlainBytes) {
    throw new RequestError(
      413,
      'REQUEST_TOO_LARGE',
      `the request body is larger than the limit of ${maxPlainBytes} bytes`,
    );
  }
}

function parse<Schema extends z.ZodType>(schema: Schema, body: Buffer): z.output<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw new RequestError(400, 'REQUEST_INVALID', 'the body is not JSON', { cause });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new RequestError(400, 'REQUEST_INVALID', issue ? describe(issue) : 'the body is not valid');
}

/** Names of members are shown, values are not: they may be URLs with signatures. */
function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    const names = issue.keys.map((key) => JSON.stringify(key.slice(0, 64)));
    return `${path === '' ? 'the body' : path}: unknown members ${names.join(', ').slice(0, 200)}`;
  }
  return `${path === '' ? 'the body' : path}: ${issue.message}`;
}
