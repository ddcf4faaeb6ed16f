import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { type Coordinator, createApp } from './app.ts';

/** The cases of cases.md about inline media, through a coordinator with the real media checks. */

const megabyte = 1024 * 1024;

let directory: string;
let gateway: ScriptedServer;
let render: ScriptedServer;
let coordinator: Coordinator;
let running: RunningService;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'cases-media-'));
  render = await scriptedServer((call) => {
    const { messages } = call.json() as { messages: { content: { type: string }[] }[] };
    const images = (messages[0]?.content ?? []).filter(({ type }) => type === 'image_url');
    return {
      json: {
        token_ids: [1, ...images.map(() => 2)],
        features: {
          mm_hashes: { image: images.map((_, i) => `h${i}`) },
          mm_placeholders: { image: images.map((_, i) => ({ offset: i, length: 1 })) },
          kwargs_data: null,
        },
      },
    };
  });
  gateway = await scriptedServer({ json: { choices: [] } });
  const file = join(directory, 'coordinator.yaml');
  const media = {
    type: 'replace-media-urls',
    params: {
      ...{ max_multimodal_entries: 8, max_download_size: 1 },
      ...{ modalities: ['image', 'video', 'audio'], max_video_download_size: 2 },
    },
  };
  writeFileSync(
    file,
    JSON.stringify({
      server: { max_request_body_size: 4 },
      gateway: { address: gateway.url },
      pipeline: {
        steps: [
          media,
          { type: 'render', params: { address: render.url } },
          ...['encode', 'prefill', 'decode'].map((type) => ({ type })),
        ],
      },
    }),
  );
  const logger = createLogger({ service: 'test', level: 1, destination: { write: () => true } });
  coordinator = await createApp({ config: loadConfig({ file }).config, logger });
  running = await startService(coordinator.service, {
    host: '127.0.0.1',
    port: 0,
    logger,
    shutdownTimeoutMs: 5_000,
  });
});

afterAll(async () => {
  await running.stop();
  await coordinator.close();
  await Promise.all([render.close(), gateway.close()]);
  rmSync(directory, { recursive: true });
});

interface Refusal {
  readonly error?: {
    readonly param: string | null;
    readonly code: string;
    readonly message: string;
  };
}

/** Sends a chat with these images behind a text; tells the answer and how many calls anybody got. */
const askAbout = (urls: readonly string[]) =>
  askWith(urls.map((url) => ({ type: 'image_url', image_url: { url } })));

async function askWith(parts: readonly object[]) {
  const before = render.calls.length + gateway.calls.length;
  const content = [{ type: 'text', text: 'What is this?' }, ...parts];
  const response = await fetch(`${running.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }),
  });
  const { error } = (await response.json()) as Refusal;
  const calls = render.calls.length + gateway.calls.length - before;
  return { status: response.status, error, calls };
}

/** A PNG of one pixel. */
const ok =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const noPadding = ok.replace(/=+$/, '');

describe('forms of data URIs (C25)', () => {
  it.each([
    { name: 'the plain form', url: `data:image/png;base64,${ok}` },
    { name: 'capital letters', url: `DATA:IMAGE/PNG;BASE64,${ok}` },
    { name: 'a parameter', url: `data:image/png;name=a;base64,${ok}` },
  ])('that are served as they are: $name', async ({ url }) => {
    const { status, error, calls } = await askAbout([url]);
    expect({ status, error }).toEqual({ status: 200, error: undefined });
    expect(calls).toBe(4);
    const carried = [...render.calls.slice(-1), ...gateway.calls.slice(-3)];
    for (const { body } of carried) expect(body.toString()).toContain(JSON.stringify(url));
  });

  const invalid = 'media_data_uri_invalid';
  it.each([
    { name: 'line breaks', url: `data:image/png;base64,${ok.slice(0, 40)}\r\n${ok.slice(40)}` },
    { name: 'the URL-safe alphabet', url: `data:image/png;base64,${ok.replaceAll('+', '-')}` },
    { name: 'no padding', url: `data:image/png;base64,${noPadding}` },
    { name: 'percent-encoding', url: 'data:image/png,%89PNG%0D%0A' },
    { name: 'no comma', url: 'data:image/png;base64' },
    { name: 'no type', url: `data:;base64,${ok}` },
    { name: 'another type', url: `data:text/html;base64,${ok}`, code: 'media_type_not_allowed' },
    { name: 'no scheme', url: ok, code: expect.stringMatching(/^media_/) },
    { name: 'an empty payload', url: 'data:image/png;base64,' },
  ])('that are 400 with their part, and never fetched: $name', async ({ url, code = invalid }) => {
    const { status, error, calls } = await askAbout([`data:image/png;base64,${ok}`, url]);
    expect({ status, calls }).toEqual({ status: 400, calls: 0 });
    expect(error).toMatchObject({ code, param: 'messages[0].content[2]' });
    expect(error?.message).toMatch(/^messages\[0\]\.content\[2\]: /);
    expect(error?.message).not.toContain(ok.slice(0, 30));
  });
});

describe('limits that inline media cannot dodge (C33)', () => {
  const pngOf = (bytes: number): string => {
    const data = Buffer.alloc(bytes);
    Buffer.from(ok, 'base64').copy(data);
    return `data:image/png;base64,${data.toString('base64')}`;
  };

  it.each([
    {
      name: 'one beyond max_download_size',
      urls: [pngOf(megabyte + 1)],
      status: 400,
      code: 'media_too_large',
    },
    {
      name: '200 where 8 are allowed',
      urls: Array<string>(200).fill(pngOf(100)),
      status: 400,
      code: 'media_too_many_items',
    },
  ])('refuse $name before any call', async ({ urls, status, code }) => {
    const answer = await askAbout(urls);
    expect(answer).toMatchObject({ status, calls: 0, error: { code } });
  });

  it('leave it to max_request_body_size how much they are together', async () => {
    const large = pngOf(0.9 * megabyte);
    expect(await askAbout([large, large])).toMatchObject({ status: 200 });
    expect(await askAbout([large, large, large, large])).toMatchObject({ status: 413, calls: 0 });
  });
});

describe('inline video and audio (C22)', () => {
  const base64 = (head: string, length = 64): string =>
    Buffer.concat([Buffer.from(head, 'latin1'), Buffer.alloc(length)]).toString('base64');
  const mp4 = base64('\0\0\0\x18ftypisom');
  const wav = base64('RIFF\0\0\0\0WAVE');
  const video = (url: string) => ({ type: 'video_url', video_url: { url } });
  const audio = (data: string, format: string) => ({
    type: 'input_audio',
    input_audio: { data, format },
  });

  it('reach render, prefill and decode as they came', async () => {
    const parts = [video(`data:video/mp4;base64,${mp4}`), audio(wav, 'wav')];
    const { status, error, calls } = await askWith(parts);
    expect({ status, error, calls }).toEqual({ status: 200, error: undefined, calls: 3 });
    const sent = JSON.stringify(parts).slice(1, -1);
    expect(render.calls.at(-1)?.body.toString()).toContain(sent);
    expect(gateway.calls.slice(-2).map((call) => call.body.includes(sent))).toEqual([true, true]);
  });

  it.each([
    {
      name: 'a picture as video',
      part: video(`data:video/mp4;base64,${ok}`),
      code: 'media_type_not_allowed',
    },
    {
      name: 'a type that is not for video',
      part: video(`data:image/png;base64,${ok}`),
      code: 'media_type_not_allowed',
    },
    {
      name: 'a video that is too large',
      part: video(`data:video/mp4;base64,${base64('\0\0\0\x18ftypisom', 2 * megabyte)}`),
      code: 'media_too_large',
    },
    {
      name: 'a page as audio',
      part: audio(base64('<html>'), 'wav'),
      code: 'media_type_not_allowed',
    },
    { name: 'audio that is no base64', part: audio('AA-_', 'wav'), code: 'media_data_uri_invalid' },
    { name: 'an unknown format', part: audio(wav, 'wma'), code: 'media_type_not_allowed' },
    {
      name: 'audio beyond the common size',
      part: audio(base64('RIFF\0\0\0\0WAVE', megabyte), 'wav'),
      code: 'media_too_large',
    },
  ])('are 400 with their place before anybody is called: $name', async ({ part, code }) => {
    const { status, error, calls } = await askWith([part]);
    expect({ status, code: error?.code, calls }).toEqual({ status: 400, code, calls: 0 });
    expect(error?.param).toMatch(/^messages\[0\]\.content\[1\]/);
  });

  it('have a size of their own', async () => {
    const clip = base64('\0\0\0\x18ftypisom', 1.5 * megabyte);
    expect(await askWith([video(`data:video/mp4;base64,${clip}`)])).toMatchObject({ status: 200 });
  });
});
