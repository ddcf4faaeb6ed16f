import { afterEach, describe, expect, it } from '@jest/globals';
import { type RigOptions, TestRig } from './rig/testing.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const events = { headers: { 'content-type': 'text/event-stream' } };
const whole = 'data: {"choices":[]}\n\ndata: [DONE]\n\n';

let rig: TestRig | undefined;

async function open(options: RigOptions = {}): Promise<TestRig> {
  rig = await TestRig.open(options);
  return rig;
}

afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

describe('a receipt', () => {
  it('stands in a header of an answer that is not streamed, without the addresses of pods', async () => {
    const test = await open({
      server: { receipt: true },
      phases: {
        decode: { json: {}, headers: { 'x-gateway-destination-endpoint-served': '10.0.0.7:8000' } },
      },
    });
    const { headers } = await test.post(chat, { 'x-request-id': 'id-1' });
    const text = String(headers['x-llm-d-receipt']);
    expect(JSON.parse(text)).toEqual({
      request_id: 'id-1',
      ms: expect.any(Number),
      queue_ms: 0,
      steps: { render: expect.any(Number), prefill: expect.any(Number) },
      legs: {
        render: expect.objectContaining({ count: 1, status: 200, response_bytes: 23 }),
        prefill: expect.objectContaining({ count: 1, status: 200 }),
        decode: expect.objectContaining({ count: 1, status: 200 }),
      },
      prompt_tokens: 4,
      media_items: 0,
    });
    expect(text).not.toContain('10.0.0.7');
    expect(await test.summary()).toMatchObject({
      legs: { decode: { served_by: '10.0.0.7:8000' } },
    });
  });

  it('is the last comment of a stream that came whole', async () => {
    const test = await open({
      server: { receipt: true },
      phases: { decode: { ...events, text: whole } },
    });
    // A length would forbid to add anything.
    test.gateway.play(({ headers }) =>
      headers['epp-profile']?.[0] === 'decode'
        ? { ...events, chunks: [whole] }
        : { json: { kv_transfer_params: {} } },
    );
    const { text, headers } = await test.post({ ...chat, stream: true });
    expect(text.startsWith(`${whole}: receipt {"request_id":`)).toBe(true);
    expect(text.endsWith('}\n\n')).toBe(true);
    expect(headers['x-llm-d-receipt']).toBeUndefined();
    const receipt = JSON.parse(text.slice(`${whole}: receipt `.length)) as object;
    expect(receipt).toMatchObject({ prompt_tokens: 4, legs: { decode: { count: 1 } } });
  });

  it.each([
    {
      name: 'that breaks off',
      decode: { ...events, chunks: ['data: 1\n\n', { end: 'reset' as const }] },
    },
    { name: 'whose last line has no end', decode: { ...events, chunks: ['data: 1'] } },
  ])('is not added to a stream $name', async ({ decode }) => {
    const test = await open({ server: { receipt: true }, phases: { decode } });
    const { text } = await test.post({ ...chat, stream: true });
    expect(text).toContain('data: 1');
    expect(text).not.toContain('receipt');
  });

  it('stands on an error of ours too', async () => {
    const test = await open({ server: { receipt: true }, phases: { prefill: { status: 503 } } });
    const { status, headers } = await test.post(chat);
    expect(status).toBe(503);
    expect(JSON.parse(String(headers['x-llm-d-receipt']))).toMatchObject({
      legs: { prefill: { status: 503 } },
    });
  });

  it('is given to nobody unless it is switched on', async () => {
    const test = await open({ phases: { decode: { ...events, chunks: [whole] } } });
    const { text, headers } = await test.post({ ...chat, stream: true });
    expect(text).toBe(whole);
    expect(headers).not.toHaveProperty('x-llm-d-receipt');
    expect(headers).not.toHaveProperty('server-timing');
  });
});

describe('server-timing', () => {
  const timing = /^render;dur=[\d.]+, prefill;dur=[\d.]+, decode-ttfb;dur=[\d.]+$/;

  it.each([
    { name: 'the configuration', server: { server_timing: true }, headers: {} },
    { name: 'the client', server: {}, headers: { 'x-llm-d-server-timing': '1' } },
  ])('tells the time of each step when $name asks for it', async ({ server, headers }) => {
    const test = await open({ server });
    const answer = await test.post(chat, headers);
    expect(answer.headers['server-timing']).toMatch(timing);
    expect(answer.headers).not.toHaveProperty('x-llm-d-receipt');
  });

  it('is not given for another value of the header', async () => {
    const test = await open();
    const answer = await test.post(chat, { 'x-llm-d-server-timing': '0' });
    expect(answer.headers).not.toHaveProperty('server-timing');
  });
});
