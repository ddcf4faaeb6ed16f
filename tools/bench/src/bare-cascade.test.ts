import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type CaseOptions, makeCase } from './cascade-cases.ts';
import { CascadeProcess, freePort } from './cascade-process.ts';
import { checkOutcome } from './check-legs.ts';
import { StubUpstream } from './stub-upstream.ts';

const script = fileURLToPath(new URL('./bare-cascade.ts', import.meta.url));
const stub = new StubUpstream();
let bare: CascadeProcess;

beforeAll(async () => {
  const [upstream, port] = [await stub.start(), await freePort()];
  const command = `${process.execPath} ${script} ${port} ${upstream} ${upstream}`;
  bare = await CascadeProcess.start('bare cascade', command, port, false);
}, 30_000);

afterAll(async () => {
  await bare.stop();
  stub.close();
});

describe('the bare cascade', () => {
  it.each<[name: string, options: CaseOptions]>([
    ['a text', { promptBytes: 200, tokens: 50 }],
    ['two images', { promptBytes: 20, tokens: 700, images: [400, 80_000] }],
    ['a stream', { promptBytes: 20, tokens: 5, events: 4 }],
  ])('carries %s through every leg', async (name, options) => {
    const test = makeCase(options, { name, requests: 1, parallel: 1, target: 1 });
    stub.current = test;
    stub.seen = [];
    const answer = await bare.pool.request({
      ...{ method: 'POST', path: '/v1/chat/completions', body: test.body },
      headers: { 'content-type': 'application/json' },
    });
    const outcome = {
      status: answer.statusCode,
      answer: Buffer.from(await answer.body.arrayBuffer()),
      legs: stub.seen,
    };
    checkOutcome(bare.name, test, outcome);

    const decode = outcome.legs.find((leg) => leg.name === 'decode');
    const sent = JSON.parse(String(decode?.body)) as Record<string, unknown>;
    const images = Array.from({ length: test.images }, (_, i): unknown =>
      expect.objectContaining({ type: 'image_url', uuid: String(i).repeat(64) }),
    );
    expect(sent).toMatchObject({
      ...(JSON.parse(test.body.toString()) as object),
      kv_transfer_params: { do_remote_prefill: true, remote_host: '10.0.0.8' },
      ...(images.length > 0
        ? { messages: [{ role: 'user', content: expect.arrayContaining(images) as unknown }] }
        : {}),
    });
  });
});
