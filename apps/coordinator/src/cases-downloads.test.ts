import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { TestCoordinator } from './testing.ts';

// Situations that people reported in public: cases.md, by number. Redirects (C26) and address spellings (C27) are tested in
// libs/media.

let coordinator: TestCoordinator;
let origin: ScriptedServer;
beforeEach(async () => {
  [coordinator, origin] = [await TestCoordinator.open(), await scriptedServer()];
});
afterEach(async () => {
  await coordinator.close();
  await origin.close();
});

/** Knows no name: the origin is asked for by its address. */
const resolve = () => Promise.reject(Object.assign(new Error('no name'), { code: 'ENOTFOUND' }));

async function start(downloadTimeoutMs = 10_000): Promise<void> {
  const steps = [
    {
      type: 'replace-media-urls',
      params: { download_timeout: `${downloadTimeoutMs}ms`, max_concurrent_downloads: 8 },
    },
    { type: 'render', params: { address: coordinator.renderService.url } },
    ...['encode', 'prefill', 'decode'].map((type) => ({ type })),
  ];
  await coordinator.start(
    { pipeline: { steps } },
    { media: { testOnlyAllowLoopback: true, resolve } },
  );
}

/** Sends a chat with these URLs behind a text. */
function askAbout(...urls: string[]) {
  const images = urls.map((url) => ({ type: 'image_url', image_url: { url } }));
  const content = [{ type: 'text', text: 'What is this?' }, ...images];
  return coordinator.ask({ model: 'm', messages: [{ role: 'user', content }] });
}

/** The URL that a leg carries in the place of the first one. */
function carried(phase: 'render' | 'encode' | 'prefill' | 'decode'): string {
  const [call] = coordinator.legs(phase);
  return /"url":"([^"]*)"/.exec(String(call?.body))?.[1] ?? '';
}

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);
const bytes = (body: string | Buffer, type?: string, status = 200): Answer => ({
  status,
  bytes: Buffer.from(body),
  headers: type === undefined ? {} : { 'content-type': type },
});

describe('C04: a client that leaves while its images are downloaded', () => {
  it.each([false, true])('ends every download, and no leg is sent (stream: %s)', async (stream) => {
    await start();
    origin.play({ beforeHeaders: 'hang' });
    const client = new AbortController();
    const content = [0, 1, 2, 3].map((i) => ({
      type: 'image_url',
      image_url: { url: `${origin.url}/${i}` },
    }));
    const asked = fetch(`${coordinator.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-request-id': 'c04' },
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content }] }),
      signal: client.signal,
    });
    const calls = await Promise.all(content.map((_, i) => origin.received(i)));
    const leftAt = performance.now();
    client.abort();
    await expect(asked).rejects.toThrow();
    await Promise.all(calls.map(({ ended }) => ended));
    expect(performance.now() - leftAt).toBeLessThan(500);
    expect(calls.map(({ aborted }) => aborted)).toEqual([true, true, true, true]);
    expect(await coordinator.summary('c04')).toMatchObject({ outcome: 'cancelled', status: 499 });
    expect([...coordinator.renderService.calls, ...coordinator.gateway.calls]).toEqual([]);
  });
});

describe('C29: what an origin says about the type', () => {
  it.each([
    { name: 'binary/octet-stream', type: 'binary/octet-stream' },
    { name: 'another type of image', type: 'image/jpeg' },
    { name: 'a charset', type: 'image/png; charset=utf-8' },
    { name: 'nothing', type: undefined },
  ])('does not count, the bytes do: $name', async ({ type }) => {
    await start();
    origin.play(bytes(png, type));
    expect((await askAbout(`${origin.url}/a`)).status).toBe(200);
    const uri = `data:image/png;base64,${png.toString('base64')}`;
    for (const phase of ['render', 'encode', 'prefill', 'decode'] as const) {
      expect(carried(phase)).toBe(uri);
    }
  });

  it.each([
    { name: 'a page to log in', answer: bytes('<!doctype html><p>', 'image/png') },
    { name: 'SVG', answer: bytes('<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml') },
    { name: 'nothing', answer: bytes('', 'image/png') },
    { name: 'a part', answer: bytes(png, 'image/png', 206), status: 424 },
  ])('no leg gets $name', async ({ answer, status = 400 }) => {
    await start();
    origin.play(answer);
    const refused = await askAbout(`${origin.url}/SECRET/a.png?sig=SECRET`);
    expect(refused.status).toBe(status);
    expect(JSON.parse(refused.text)).toMatchObject({
      error: { param: 'messages[0].content[1]', code: expect.stringMatching(/^media_/) },
    });
    expect(refused.text).not.toContain('SECRET');
    expect(JSON.stringify(coordinator.lines)).not.toContain('SECRET');
    expect([...coordinator.renderService.calls, ...coordinator.gateway.calls]).toEqual([]);
  });
});

/** A JPEG of 3 x 2 pixels, if given with an EXIF segment that says how it is turned. */
function jpeg(orientation?: number): Buffer {
  const tiff = Buffer.from('4d4d002a00000008000101120003000000010000000000000000', 'hex');
  if (orientation !== undefined) tiff.writeUInt16BE(orientation, 18);
  const exif = Buffer.concat([Buffer.from('ffe10022457869660000', 'hex'), tiff]);
  const hex = (text: string): Buffer => Buffer.from(text, 'hex');
  const app1 = orientation === undefined ? [] : [exif];
  return Buffer.concat([hex('ffd8'), ...app1, hex('ffc0000b080002000301011100ffd9')]);
}

describe('C30: the bytes of an image', () => {
  it.each([
    { name: 'a JPEG', content: jpeg() },
    { name: 'a JPEG that says it is turned', content: jpeg(6) },
    { name: 'a PNG', content: png },
    { name: 'a PNG with bytes behind its end', content: Buffer.concat([png, Buffer.from('x')]) },
  ])('reach the legs exactly: $name', async ({ content }) => {
    await start();
    origin.play(bytes(content));
    expect((await askAbout(`${origin.url}/a`)).status).toBe(200);
    const sha = (data: Buffer) => createHash('sha256').update(data).digest('hex');
    for (const phase of ['render', 'encode', 'prefill', 'decode'] as const) {
      const sent = Buffer.from(carried(phase).split(',')[1] ?? '', 'base64');
      expect(sha(sent)).toBe(sha(content));
    }
  });
});

describe('C32: an origin that does not deliver', () => {
  it.each<{ name: string; answer: Answer; status: number; code: string }>([
    { name: '404', answer: { status: 404 }, status: 400, code: 'media_origin_status' },
    { name: '403', answer: { status: 403 }, status: 400, code: 'media_origin_status' },
    {
      name: '429',
      // Longer than the download may take, so that it is not tried again.
      answer: { status: 429, headers: { 'retry-after': '60' } },
      status: 424,
      code: 'media_origin_status',
    },
    { name: '500', answer: { status: 500 }, status: 424, code: 'media_origin_status' },
    {
      name: 'a reset',
      answer: { beforeHeaders: 'reset' },
      status: 424,
      code: 'media_connect_failed',
    },
    { name: 'no answer', answer: { beforeHeaders: 'hang' }, status: 424, code: 'media_timeout' },
    {
      name: 'half a body',
      answer: {
        headers: { 'content-length': '100' },
        chunks: [png.subarray(0, 30), { end: 'hang' }],
      },
      status: 424,
      code: 'media_timeout',
    },
  ])(
    '$name for one of three: 4xx with its place in time, and the others are let go',
    async (row) => {
      const downloadTimeoutMs = row.code === 'media_timeout' ? 400 : 10_000;
      await start(downloadTimeoutMs);
      const others = Promise.withResolvers<void>();
      origin.play((call) =>
        call.path === '/bad' ? { ...row.answer, delay: others.promise } : { beforeHeaders: 'hang' },
      );
      const began = performance.now();
      const asked = askAbout(`${origin.url}/1`, `${origin.url}/bad`, `${origin.url}/3`);
      const calls = await Promise.all([0, 1, 2].map((i) => origin.received(i)));
      others.resolve();
      const { status, text } = await asked;
      expect(performance.now() - began).toBeLessThan(downloadTimeoutMs + 1_000);
      expect(status).toBe(row.status);
      const { error } = JSON.parse(text) as { error: { param: string; code: string } };
      expect(error.code).toBe(row.code);
      // When nobody answers in time, each of the three is at fault.
      const place = row.code === 'media_timeout' ? /\[[123]\]$/ : /\[2\]$/;
      expect(error.param).toMatch(place);
      await Promise.all(calls.map(({ ended }) => ended));
      expect(calls.filter(({ path }) => path !== '/bad').map(({ aborted }) => aborted)).toEqual([
        true,
        true,
      ]);
      expect([...coordinator.renderService.calls, ...coordinator.gateway.calls]).toEqual([]);
    },
  );

  it.each([
    { name: 'a host that does not exist', url: 'http://media.test/a', code: 'media_dns_failed' },
    { name: 'no TLS', url: 'https:', code: 'media_tls_failed' },
    { name: 'nobody listens', url: 'closed', code: 'media_connect_failed' },
  ])('$name is 4xx', async ({ url, code }) => {
    await start();
    let target = url;
    if (url === 'https:') target = `${origin.url.replace('http:', 'https:')}/a`;
    if (url === 'closed') {
      target = `${origin.url}/a`;
      await origin.close();
    }
    const { status, text } = await askAbout(target);
    expect(status).toBe(424);
    expect(JSON.parse(text)).toMatchObject({ error: { code, param: 'messages[0].content[1]' } });
  });
});
