import { readFileSync } from 'node:fs';
import { ConfigError, describeProblem, type MediaSection } from '@llm-d/config';
import { z } from 'zod';
import { type MediaCacheSettings, type MediaSettings } from './create-media-fetcher.ts';
import { parseAllowedDomains } from './domain-rules.ts';
import { type OriginHeaders } from './download.ts';

const mebibyte = 1024 * 1024;

/**
 * The section `media` of a configuration in the fetcher's terms. Throws a ConfigError naming the key, with `prefix` before
 * it.
 */
export function mediaSettings(
  media: MediaSection,
  environment: Readonly<Record<string, string | undefined>>,
  prefix = 'media.',
): MediaSettings {
  return {
    userAgent: media.user_agent,
    limits: {
      connectTimeoutMs: media.connect_timeout,
      headersTimeoutMs: media.headers_timeout,
      idleTimeoutMs: media.idle_timeout,
      globalMaxDownloads: media.global_max_downloads,
      globalMaxQueuedDownloads: media.global_max_queued_downloads,
      globalMaxBufferedBytes: media.global_max_buffered_mb * mebibyte,
      maxImagePixels: media.max_image_pixels,
    },
    allowedPrivateCidrs: media.allowed_private_cidrs,
    blockedCidrs: media.blocked_cidrs,
    blockedDomains: blockedDomains(media.blocked_domains, prefix),
    allowedPorts: media.allowed_ports,
    allowHttpsDowngrade: media.allow_https_downgrade,
    originHeaders: readOriginHeaders(media.origin_headers_file, `${prefix}origin_headers_file`),
    nat64: media.nat64,
    ...(media.cache.enabled && { cache: cacheSettings(media.cache, environment, prefix) }),
    ...proxyOf(media, environment),
  };
}

const originHeadersFile = z.array(
  z.strictObject({
    domain: z.string().regex(/^[a-z0-9.-]+$/),
    headers: z.record(z.string().regex(/^[a-z0-9-]+$/i), z.string()),
  }),
);

/** Problems name the file and the place in it, never a value: those are secrets. */
function readOriginHeaders(file: string, key: string): readonly OriginHeaders[] {
  if (file === '') return [];
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new ConfigError([describeProblem(key, 'a JSON file that can be read', file)]);
  }
  const { data, error } = originHeadersFile.safeParse(content);
  if (data) return data;
  const places = error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new ConfigError([
    `${describeProblem(key, 'a list of {domain, headers}', file)}: see ${places || 'its top'}`,
  ]);
}

function blockedDomains(names: readonly string[], prefix: string) {
  try {
    return parseAllowedDomains(names);
  } catch (cause) {
    throw new ConfigError([`${prefix}blocked_domains: ${(cause as Error).message}`], { cause });
  }
}

function cacheSettings(
  cache: MediaSection['cache'],
  environment: Readonly<Record<string, string | undefined>>,
  prefix: string,
): MediaCacheSettings {
  const { redis_url: redisUrl } = cache;
  if (redisUrl !== '' && !/^rediss?:\/\/[^/]/.test(redisUrl)) {
    const expected = 'an address such as redis://host:6379';
    // What was given may hold a password.
    throw new ConfigError([describeProblem(`${prefix}cache.redis_url`, expected, '***')]);
  }
  return {
    redisUrl,
    redis: {
      controlTimeoutMs: cache.control_timeout,
      blobTimeoutMs: cache.blob_timeout,
      maxValueBytes: cache.max_value_mb * mebibyte,
    },
    memory: { maxBytes: cache.memory_mb * mebibyte },
    rules: {
      defaultTtlMs: cache.default_ttl,
      maxTtlMs: cache.max_ttl,
      staleWhileRevalidateMs: cache.stale_while_revalidate,
      staleIfErrorMs: cache.stale_if_error,
    },
    secret: environment[cache.key_secret_env] ?? '',
    namespace: cache.namespace,
    negative: cache.negative,
  };
}

/** The usual variables hold for media downloads only: gateway and render are inside. */
function proxyOf(
  { trust_remote_dns: trustRemoteDns }: MediaSection,
  environment: Readonly<Record<string, string | undefined>>,
): MediaSettings {
  const { HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy } = environment;
  return httpProxy || httpsProxy
    ? { proxy: { httpProxy, httpsProxy, noProxy, trustRemoteDns } }
    : {};
}
