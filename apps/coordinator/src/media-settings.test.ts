import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { defaultMediaLimits, mediaSettings } from '@llm-d/media';

function settings(media: unknown, environment: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'media-settings-'));
  try {
    const file = join(folder, 'coordinator.yaml');
    writeFileSync(file, JSON.stringify({ gateway: { address: 'http://gateway' }, media }));
    return mediaSettings(loadConfig({ file, environment }).config.media, environment);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the section media', () => {
  it('has the defaults of the fetcher, without cache and proxy', () => {
    const { limits, cache, proxy } = settings({});
    expect({ ...defaultMediaLimits, ...limits }).toEqual(defaultMediaLimits);
    expect([cache, proxy]).toEqual([undefined, undefined]);
  });

  it('takes the proxies of the environment', () => {
    const { proxy } = settings({}, { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: '*' });
    expect(proxy).toMatchObject({ httpsProxy: 'http://proxy:3128', noProxy: '*' });
  });

  it('takes the secret of the cache from the environment', () => {
    const cache = { enabled: true, redis_url: 'redis://cache:6379', key_secret_env: 'S' };
    expect(settings({ cache }, { S: 'abc' }).cache).toMatchObject({
      ...{ redisUrl: 'redis://cache:6379', secret: 'abc', namespace: '', negative: true },
    });
  });

  it('can be set by environment', () => {
    const environment = {
      COORDINATOR_MEDIA_CACHE_ENABLED: 'true',
      COORDINATOR_MEDIA_CACHE_MEMORY_MB: '8',
      COORDINATOR_MEDIA_ALLOWED_PORTS: '443,8443',
    };
    const { cache, allowedPorts } = settings({}, environment);
    expect(cache?.memory?.maxBytes).toBe(8 * 1024 * 1024);
    expect(allowedPorts).toEqual([443, 8443]);
  });

  it('reads headers of private stores from a file, and repeats none of them', () => {
    const folder = mkdtempSync(join(tmpdir(), 'origin-headers-'));
    const file = join(folder, 'headers.json');
    const write = (content: unknown) => writeFileSync(file, JSON.stringify(content));
    const media = { origin_headers_file: file };
    const one = { domain: 'store.example', headers: { authorization: 'Bearer SECRET' } };
    try {
      write([one]);
      expect(settings(media).originHeaders).toEqual([one]);
      for (const wrong of [one, [{ ...one, domain: 'https://store' }], [{ headers: {} }]]) {
        write(wrong);
        expect(() => settings(media)).toThrow('media.origin_headers_file: expected a list of');
        expect(() => settings(media)).not.toThrow(/SECRET/);
      }
      writeFileSync(file, '{SECRET');
      expect(() => settings(media)).toThrow(
        /expected a JSON file that can be read, got (?!.*SECRET)/,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each([
    { media: { allowed_ports: [0] }, problem: 'media.allowed_ports: expected a list of ports' },
    { media: { blocked_domains: ['*'] }, problem: 'media.blocked_domains: ' },
    {
      media: { cache: { enabled: true, redis_url: 'http://:password@x' } },
      problem: 'media.cache.redis_url: expected an address such as redis://host:6379, got',
    },
    { media: { global_max_downloads: 0 }, problem: 'media.global_max_downloads: expected' },
    { media: { cache: { default_ttl: 5 } }, problem: 'media.cache.default_ttl: expected' },
  ])('refuses $media', ({ media, problem }) => {
    expect(() => settings(media)).toThrow(problem);
    expect(() => settings(media)).not.toThrow(/password/);
  });
});
