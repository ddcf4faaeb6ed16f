import { z } from 'zod';
import {
  booleanOrText,
  duration,
  integerOrText,
  oneOf,
  setting,
  text,
  textList,
} from './setting.ts';

const megabytes = integerOrText('a size in MB, 1 or more', 1, 1_048_576);

const ports = setting('a list of ports', (value): number[] | undefined => {
  const items: unknown = typeof value === 'string' ? value.split(',').filter(Boolean) : value;
  if (!Array.isArray(items)) return undefined;
  const numbers = items.map(Number);
  const isValid = numbers.every((port) => Number.isInteger(port) && port > 0 && port <= 65_535);
  return isValid ? numbers : undefined;
});

const list = (what: string) => textList.prefault([]).describe(what);

/** Keys of `media.cache`. */
export const mediaCache = {
  enabled: booleanOrText
    .prefault(false)
    .describe('Keeps downloads for later requests ([below](#media-cache)).'),
  redis_url: text
    .prefault('')
    .describe(
      'Redis that all replicas share, `redis://` or `rediss://`. Empty: each has its own memory alone.',
    ),
  key_secret_env: text
    .prefault('MEDIA_CACHE_SECRET')
    .describe(
      'Environment variable with the secret that keys the names of URLs in Redis; the same for all who share it.',
    ),
  namespace: text.prefault('').describe('Keeps apart what different tenants of one Redis store.'),
  memory_mb: megabytes.prefault(64).describe('MB of media in the memory of this process.'),
  max_value_mb: megabytes
    .prefault(5)
    .describe('MB of one item in Redis; larger ones are left out.'),
  default_ttl: duration
    .prefault('300s')
    .describe('How long an answer is fresh that says nothing about it.'),
  max_ttl: duration.prefault('24h').describe('Longest time that any answer is fresh.'),
  stale_while_revalidate: duration
    .prefault('30s')
    .describe('How long an old copy is served while it is refreshed.'),
  stale_if_error: duration
    .prefault('300s')
    .describe('How long an old copy is served when the origin fails.'),
  negative: booleanOrText
    .prefault(true)
    .describe('Remembers failures of origins, for 5 to 60 seconds.'),
  control_timeout: duration
    .prefault('200ms')
    .describe('Longest wait for an answer of Redis about a key; then it is left out.'),
  blob_timeout: duration.prefault('1s').describe('Longest wait for the bytes of an item.'),
};

/** Keys of `media`: what holds for the downloads of all steps. */
export const media = {
  user_agent: text
    .prefault('llm-media-fetcher/1.0')
    .describe('What origins are told; some refuse requests that do not say who asks.'),
  connect_timeout: duration.prefault('3s').describe('Name resolution, TCP and TLS together.'),
  headers_timeout: duration
    .prefault('5s')
    .describe("From the request to the headers of an origin's answer."),
  idle_timeout: duration.prefault('5s').describe('Longest silence inside a body.'),
  global_max_downloads: integerOrText('a number of downloads, 1 or more', 1)
    .prefault(64)
    .describe('Downloads of all requests at the same time.'),
  global_max_queued_downloads: integerOrText('a number of downloads, 0 or more', 0)
    .prefault(512)
    .describe('Downloads that wait for their turn; the next is 503.'),
  global_max_buffered_mb: megabytes
    .prefault(256)
    .describe('MB of media that all unfinished requests hold.'),
  allowed_private_cidrs: list(
    'Private ranges that may be asked, such as `10.20.0.0/16`; loopback and metadata addresses never.',
  ),
  blocked_cidrs: list('Ranges that may not be asked; wins over all else.'),
  blocked_domains: list('Hosts that may not be asked; wins over `allowed_domains` of a step.'),
  allowed_ports: ports
    .prefault([])
    .describe('The only ports that may be asked. Empty: all but those of other services.'),
  allow_https_downgrade: booleanOrText
    .prefault(false)
    .describe('Follows redirects from https to http.'),
  origin_headers_file: text
    .prefault('')
    .describe(
      'JSON file `[{"domain", "headers"}]`: headers for private stores, sent over https to exactly that host.',
    ),
  nat64: oneOf('block', 'unwrap')
    .prefault('block')
    .describe('`unwrap`: judges the IPv4 address inside `64:ff9b::/96`, for clusters with DNS64.'),
  trust_remote_dns: booleanOrText
    .prefault(false)
    .describe('Behind a proxy: leaves names to it that do not resolve here.'),
  max_image_pixels: integerOrText('a number of pixels, 1 or more', 1)
    .prefault(50_000_000)
    .describe('An image whose header claims more is refused.'),
  cache: z.strictObject(mediaCache, { error: 'a mapping' }).prefault({}),
};

/** The values of these keys, as the file has them. */
export type MediaSection = z.output<z.ZodObject<typeof media>>;
