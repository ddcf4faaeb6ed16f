import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { TestCoordinator } from './testing.ts';

let coordinator: TestCoordinator;
let origin: ScriptedServer;
beforeEach(async () => {
  [coordinator, origin] = [await TestCoordinator.open(), await scriptedServer()];
});
afterEach(async () => {
  await coordinator.close();
  await origin.close();
});

async function start(params: Record<string, unknown>): Promise<void> {
  const steps = [
    { type: 'replace-media-urls', params },
    { type: 'render', params: { address: coordinator.renderService.url } },
    ...['encode', 'prefill', 'decode'].map((type) => ({ type })),
  ];
  const sections = { server: { max_request_body_size: 8 }, pipeline: { steps } };
  await coordinator.start(sections, { media: { testOnlyAllowLoopback: true } });
}

function askAbout(...urls: string[]) {
  const content = urls.map((url) => ({ type: 'image_url', image_url: { url } }));
  return coordinator.ask({ model: 'm', messages: [{ role: 'user', content }] });
}

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);
/** An image of so many bytes: what stands behind its end does not count. */
const padded = (bytes: number): Buffer => Buffer.concat([png, Buffer.alloc(bytes - png.length)]);
const inline = (bytes: Buffer): string => `data:image/png;base64,${bytes.toString('base64')}`;
const codeOf = (text: string): unknown =>
  (JSON.parse(text) as { error: { code: string } }).error.code;

describe('the total of a request', () => {
  const half = 512 * 1024;

  it.each([
    { name: 'inline items alone, at it', inlined: 2, downloaded: 0, isFine: true },
    { name: 'inline items alone, over it', inlined: 3, downloaded: 0, isFine: false },
    { name: 'inline and downloaded, at it', inlined: 1, downloaded: 1, isFine: true },
    { name: 'inline and downloaded, over it', inlined: 1, downloaded: 2, isFine: false },
  ])('counts $name', async ({ inlined, downloaded, isFine }) => {
    await start({ max_total_download_size: 1 });
    const bytes = padded(half);
    origin.play({ bytes });
    const urls = Array.from({ length: downloaded }, (_, i) => `${origin.url}/${i}`);
    const items = Array.from({ length: inlined }, () => inline(bytes));
    const answer = await askAbout(...items, ...urls);
    // Render has an answer for one image only.
    expect(coordinator.legs('render')).toHaveLength(isFine ? 1 : 0);
    if (!isFine)
      expect([answer.status, codeOf(answer.text)]).toEqual([400, 'media_total_too_large']);
  });
});

describe('origin_status_policy', () => {
  it.each([
    { policy: 'map', status: 401, expected: 400 },
    { policy: 'forward', status: 401, expected: 401 },
    { policy: 'forward', status: 503, expected: 424 },
  ])('$policy makes $expected of $status', async ({ policy, status, expected }) => {
    await start({ origin_status_policy: policy, max_retries: 0 });
    origin.play({ status });
    const answer = await askAbout(`${origin.url}/a`);
    expect([answer.status, codeOf(answer.text)]).toEqual([expected, 'media_origin_status']);
    expect(origin.calls).toHaveLength(1);
  });
});

describe('the log (media-fetcher.md 11)', () => {
  it('has a line for each item by URL, with its position among all, and none of their secrets', async () => {
    await start({ max_retries: 0 });
    origin.play({ bytes: png });
    const query = '?X-Amz-Signature=SECRET';
    const path = `${origin.url}/dir`;
    await askAbout(inline(png), `${path}/cat.png${query}`);
    await askAbout(inline(png), `http://10.0.0.1/dir/x${query}`);
    const lines = coordinator.lines.filter(({ msg }) => /fetched$/.test(String(msg)));
    const about = { index: 1, modality: 'image', request_id: expect.any(String) };
    expect(lines).toMatchObject([
      {
        ...{ ...about, level: 'info', msg: 'fetched', host: '127.0.0.1', name: 'cat.png' },
        ...{ status: 200, bytes: png.length, content_type: 'image/png', hops: 0 },
      },
      {
        ...{ ...about, level: 'warn', msg: 'not fetched', code: 'media_address_blocked' },
        ...{ host: '10.0.0.1', name: 'x', detail: expect.stringContaining('private network') },
      },
    ]);
    expect(JSON.stringify(coordinator.lines)).not.toMatch(/SECRET|iVBOR|\/dir/);
  });
});

it.each([
  { maxRetries: 0, asked: 1 },
  { maxRetries: 2, asked: 3 },
])('max_retries: $maxRetries asks an origin that fails $asked times', async (row) => {
  await start({ max_retries: row.maxRetries });
  origin.play({ status: 503 });
  expect((await askAbout(`${origin.url}/a`)).status).toBe(424);
  expect(origin.calls).toHaveLength(row.asked);
});

it.each([
  { check: 'off', status: 200 },
  { check: 'sniff', status: 200 },
  { check: 'strict', status: 400 },
])('content_check: $check answers $status for unknown bytes', async ({ check, status }) => {
  await start({ content_check: check });
  origin.play({ bytes: Buffer.from('unknown'), headers: { 'content-type': 'image/png' } });
  expect((await askAbout(`${origin.url}/a`)).status).toBe(status);
});

it('max_redirects: 0 follows none', async () => {
  await start({ max_redirects: 0 });
  origin.play({ status: 302, headers: { location: '/b' } });
  expect(codeOf((await askAbout(`${origin.url}/a`)).text)).toBe('media_too_many_redirects');
});

it('repair_data_uris: true mends what a client has sent', async () => {
  const sent = inline(png).replace('==', '').replaceAll('+', '-').replaceAll('/', '_');
  const mangled = `data:image/png;base64,${sent.slice('data:image_png;base64,'.length)}`;
  await start({ repair_data_uris: true });
  expect((await askAbout(mangled)).status).toBe(200);
  expect(String(coordinator.legs('decode')[0]?.body)).toContain(`"url":"${inline(png)}"`);
});
