import { readFileSync } from 'node:fs';
import {
  booleanOrText,
  ConfigError,
  describeProblem,
  duration,
  integerOrText,
  mediaKeys,
  oneOf,
  setting,
  text,
  textList,
} from '@llm-d/config';
import {
  defaultMediaFetchOptions,
  type DomainRule,
  type MediaFetchOptions,
  type MediaSettings,
  mediaSettings,
  parseAllowedDomains,
} from '@llm-d/media';
import {
  type AdmissionLimits,
  isLoopback,
  type ListenAddress,
  parseListenAddress,
} from '@llm-d/service';
import { type LogLevel } from '@llm-d/telemetry';
import { z } from 'zod';
import { BearerTokens } from './bearer-tokens.ts';
import { checkValues, readSources } from './config-sources.ts';

/** What a media fetcher starts with; durations in milliseconds, sizes in bytes. */
export interface FetcherConfig {
  readonly listen: ListenAddress;
  readonly logLevel: LogLevel;
  readonly tracing: boolean;
  readonly tokens: BearerTokens;
  readonly readTimeoutMs: number;
  /** For an answer beside its downloads, so that a slow caller does not hold memory for ever. */
  readonly writeTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  readonly drainDelayMs: number;
  readonly admission: AdmissionLimits;
  readonly media: MediaSettings;
  /** What a call may do at most. */
  readonly ceiling: MediaFetchOptions;
}

const bytesPerMb = 1024 * 1024;
/** A JavaScript string holds at most 2^29 - 24 characters, so that base64 of more cannot exist. */
const maxMediaMb = 383;

const count = integerOrText('a non-negative integer', 0);
const positive = integerOrText('a positive integer', 1);
const megabytes = integerOrText('a positive number of MB', 1);
const mediaMb = integerOrText(`a whole number of MB from 1 to ${maxMediaMb}`, 1, maxMediaMb);

const listenAddress = setting('an address such as :8083 or 127.0.0.1:8083', (value) =>
  typeof value === 'string' ? parseListenAddress(value) : undefined,
);

const domains = setting(
  'a list of hosts such as a.org, *.a.org or .a.org',
  (value): readonly DomainRule[] | undefined => {
    try {
      return parseAllowedDomains(typeof value === 'string' ? value.split(',') : value);
    } catch {
      return undefined;
    }
  },
);

const types = (builtIn: string) =>
  textList.optional().describe(`Types accepted instead of ${builtIn}; empty = any.`);

/** Every key of the file, with its default and what it means. */
export const fetcherFile = z.strictObject({
  listen: listenAddress
    .prefault('127.0.0.1:8083')
    .describe('Listen address; one that is not loopback needs tokens.'),
  log_level: integerOrText('a level from 1 (warnings) to 5 (everything)', 1, 5)
    .prefault(2)
    .describe('1 warnings, 2 info, up to 5 everything.'),
  tracing: booleanOrText
    .prefault(false)
    .describe('OpenTelemetry traces over OTLP, set up by `OTEL_*` ([tracing](../tracing.md)).'),
  tokens: textList
    .prefault([])
    .describe('Bearer tokens; callers show one of them. Better in `token_file` or the variable.'),
  token_file: text.prefault('').describe('File with one token per line, read at the start.'),
  read_timeout: duration.prefault('30s').describe('Time for a request to arrive whole.'),
  write_timeout: duration
    .prefault('30s')
    .describe('Time for a whole answer, beside that of its downloads.'),
  shutdown_timeout: duration
    .prefault('10s')
    .describe('How long requests in flight may go on after SIGTERM.'),
  drain_delay: duration
    .prefault('0s')
    .describe('How long new requests are still taken after SIGTERM.'),
  max_concurrent_requests: count.prefault(256).describe('Requests served at a time; 0 = no limit.'),
  max_queued_requests: count
    .prefault(512)
    .describe('Requests that wait for their turn: 503 beyond, and not ready.'),
  queue_timeout: duration.prefault('5s').describe('Longest wait for a turn: 503 after.'),
  max_held_mb: count
    .prefault(0)
    .describe('MB of all request bodies and answers: 503 beyond. 0 = an eighth of the memory.'),

  download_timeout: duration
    .prefault('10s')
    .describe('Whole time of one item: queue, name resolution, redirects and body.'),
  max_concurrent_downloads: positive
    .prefault(10)
    .describe('Downloads of one request at the same time.'),
  max_redirects: count.prefault(5).describe('Redirects of one item.'),
  max_retries: count.prefault(1).describe('Further attempts after a failure that may pass.'),
  max_download_size: z
    .strictObject({
      image: mediaMb.prefault(10).describe('MB of one image.'),
      audio: mediaMb.prefault(25).describe('MB of one audio clip.'),
      video: mediaMb.prefault(40).describe('MB of one video clip.'),
    })
    .prefault({}),
  max_total_download_size: megabytes.prefault(48).describe('MB of all items of one request.'),
  content_check: oneOf('off', 'sniff', 'strict')
    .prefault('sniff')
    .describe('`sniff` decides types by the bytes; `strict` refuses bytes it does not know.'),
  allowed_image_types: types('JPEG, PNG, GIF and WebP'),
  allowed_video_types: types('MP4, WebM and QuickTime'),
  allowed_audio_types: types('WAV, MP3, Ogg, FLAC, MP4 and WebM'),
  transcode_image_types: textList
    .prefault([])
    .describe('Types that callers may have converted: `image/avif`, `image/tiff`.'),
  allow_private_networks: booleanOrText
    .prefault(false)
    .describe('Opens the private IPv4 ranges (RFC 1918) and nothing else.'),
  allowed_domains: domains
    .prefault([])
    .describe('Hosts that may be asked; empty = any public one.'),
  extra_ca_file: text.prefault('').describe('PEM certificates trusted beside those of Node.'),
  ...mediaKeys,
});

/** Flags that set a key. */
export const fetcherFlags = {
  listen: 'listen',
  'log-level': 'log_level',
  'token-file': 'token_file',
};

/**
 * Reads the configuration: flags win over `MEDIA_*` variables, those over the file. Throws a ConfigError that names every
 * problem.
 */
export function loadFetcherConfig(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): { config: FetcherConfig; warnings: readonly string[] } {
  const { values, warnings } = readSources(fetcherFile, fetcherFlags, argv, environment);
  const file = checkValues(fetcherFile, values);
  const tokens = new BearerTokens([...file.tokens, ...readTokens(file.token_file)]);
  if (!isLoopback(file.listen) && !tokens.isRequired) {
    const expectation = 'a loopback address, or tokens (MEDIA_TOKENS or token_file)';
    throw new ConfigError([describeProblem('listen', expectation, values['listen'])]);
  }
  const sizes = file.max_download_size;
  const settings = mediaSettings(file, environment, '');
  return {
    warnings: warnings.filter((warning) => !warning.startsWith(`${file.cache.key_secret_env}:`)),
    config: {
      listen: file.listen,
      logLevel: file.log_level as LogLevel,
      tracing: file.tracing,
      tokens,
      readTimeoutMs: file.read_timeout,
      writeTimeoutMs: file.write_timeout,
      shutdownTimeoutMs: file.shutdown_timeout,
      drainDelayMs: file.drain_delay,
      admission: {
        maxConcurrentRequests: file.max_concurrent_requests,
        maxQueuedRequests: file.max_queued_requests,
        queueTimeoutMs: file.queue_timeout,
        maxBodyBytesHeld: file.max_held_mb * bytesPerMb,
      },
      media: {
        ...settings,
        ...(file.extra_ca_file !== '' && {
          extraCa: readSecret('extra_ca_file', file.extra_ca_file),
        }),
      },
      ceiling: {
        downloadTimeoutMs: file.download_timeout,
        maxConcurrentDownloads: file.max_concurrent_downloads,
        maxDownloadBytes: sizes.image * bytesPerMb,
        maxModalityBytes: {
          image: sizes.image * bytesPerMb,
          audio: sizes.audio * bytesPerMb,
          video: sizes.video * bytesPerMb,
        },
        maxTotalDownloadBytes: file.max_total_download_size * bytesPerMb,
        allowPrivateNetworks: file.allow_private_networks,
        allowedDomains: file.allowed_domains,
        contentCheck: file.content_check,
        maxRedirects: file.max_redirects,
        maxRetries: file.max_retries,
        transcodeImageTypes: lowerCase(file.transcode_image_types),
        allowedImageTypes: defaultMediaFetchOptions.allowedImageTypes,
        allowedTypes: {
          ...(file.allowed_image_types && { image: lowerCase(file.allowed_image_types) }),
          ...(file.allowed_video_types && { video: lowerCase(file.allowed_video_types) }),
          ...(file.allowed_audio_types && { audio: lowerCase(file.allowed_audio_types) }),
        },
      },
    },
  };
}

const lowerCase = (list: readonly string[]): string[] => list.map((type) => type.toLowerCase());

function readTokens(file: string): string[] {
  if (file === '') return [];
  const tokens = readSecret('token_file', file)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (tokens.length === 0) throw new ConfigError([`token_file: expected a token in ${file}`]);
  return tokens;
}

function readSecret(key: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError([`${key}: cannot be read: ${reason}`], { cause });
  }
}
