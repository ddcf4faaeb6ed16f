import { afterEach, describe, expect, it } from '@jest/globals';
import { type RigOptions, TestRig } from './rig/testing.ts';
import { prefilled } from './testing.ts';

const secret = `a prompt of more than fifty bytes, ${'x'.repeat(60)}`;
const chat = { model: 'm', messages: [{ role: 'user', content: secret }] };

let rig: TestRig | undefined;

async function run(
  options: RigOptions,
  headers: Record<string, string> = {},
  body: unknown = chat,
) {
  rig = await TestRig.open(options);
  await rig.post(body, headers);
  await rig.summary();
  return rig;
}

afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

const messages = ({ lines }: TestRig): unknown[] => lines.map(({ msg }) => msg);

describe('the log of a request (coordinator.md 8.3)', () => {
  it('has one line at level info: the whole receipt and how it ended', async () => {
    const test = await run({}, { 'x-request-id': 'id-1' });
    expect(messages(test)).toEqual(['request']);
    const line = await test.summary();
    const leg = {
      ...{ count: 1, ms: expect.any(Number), status: 200 },
      ...{ request_bytes: expect.any(Number), response_bytes: expect.any(Number) },
    };
    expect(line).toMatchObject({
      ...{ request_id: 'id-1', path: '/v1/chat/completions', model: 'm', stream: false },
      ...{ outcome: 'served', status: 200, queue_ms: 0, media_items: 0 },
      ...{ prompt_tokens: 4, completion_tokens: 2 },
      legs: { render: leg, prefill: leg, decode: leg },
      request_bytes: JSON.stringify(chat).length,
    });
    expect(line['legs']).toMatchObject({ render: { request_bytes: JSON.stringify(chat).length } });
  });

  it('has the time of parsing fixed before the first step', async () => {
    rig = await TestRig.open({ phases: { prefill: { json: {}, delay: 60 } } });
    await rig.post(chat);
    const { parse_ms: parseMs, ms } = await rig.summary();
    expect(parseMs).toBeGreaterThan(0);
    expect(Number(ms) - Number(parseMs)).toBeGreaterThan(55);
  });

  it('has nothing but failures at level warning', async () => {
    rig = await TestRig.open({ logLevel: 1 });
    await rig.post(chat);
    expect(rig.lines).toEqual([]);
  });

  it('has an error line for a fault of an upstream, without its body', async () => {
    const test = await run({ phases: { prefill: { status: 500, text: 'SECRET' } } });
    expect(test.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
    expect(JSON.stringify(test.lines)).not.toContain('SECRET');
  });

  it('shows at level debug selected and redacted headers, and lengths of bodies', async () => {
    const test = await run(
      { logLevel: 4 },
      { authorization: 'Bearer SECRET', 'x-request-id': 'id-1', cookie: 'SECRET', prefer: 'x' },
    );
    expect(messages(test)).toEqual([
      'request received',
      ...['leg sent', 'leg answered', 'leg sent', 'leg answered', 'leg sent', 'leg answered'],
      ...['request', 'request answered'],
    ]);
    expect(test.lines[0]).toMatchObject({
      ...{ method: 'POST', path: '/v1/chat/completions', request_id: 'id-1' },
      headers: { 'x-request-id': 'id-1', prefer: 'x' },
    });
    expect(test.lines[1]).toMatchObject({
      leg: 'render',
      body_bytes: JSON.stringify(chat).length,
      headers: { authorization: '[REDACTED]', cookie: '[REDACTED]', 'x-request-id': 'id-1' },
    });
    expect(test.lines[4]).toMatchObject({ leg: 'prefill', status: 200 });
    expect(test.lines.at(-1)).toMatchObject({ status: 200, headers: { 'x-request-id': 'id-1' } });
    expect(JSON.stringify(test.lines)).not.toMatch(/SECRET|a prompt/);
  });

  it('never shows an id that was refused', async () => {
    const test = await run({ logLevel: 4 }, { 'x-request-id': 'not valid' });
    expect(test.lines[0]).toMatchObject({
      msg: 'x-request-id is not valid, id replaced',
      length: 9,
    });
    expect(test.lines[1]).toMatchObject({ headers: { 'x-request-id': '<redacted>' } });
    expect(JSON.stringify(test.lines)).not.toContain('not valid"');
  });

  it('says at level debug that transfer params of a client were dropped', async () => {
    const test = await run({ logLevel: 4 }, {}, { ...chat, kv_transfer_params: { a: 1 } });
    expect(messages(test)).toContain('transfer params of the client were dropped');
  });

  it('shows at level trace every step and leg, and bodies without texts', async () => {
    const test = await run({ logLevel: 5 });
    const traced = test.lines.filter((line) => line['level'] === 'trace' && 'request_id' in line);
    expect(traced.map(({ msg, step, leg }) => `${String(msg)}: ${String(leg ?? step)}`)).toEqual(
      ['render', 'prefill', 'decode'].flatMap((name) => [
        ...[`step started: ${name}`, `leg started: ${name}`, `body of the leg: ${name}`],
        ...(name === 'decode'
          ? [`leg complete: ${name}`, `body of the answer: ${name}`]
          : [`body of the answer: ${name}`, `leg complete: ${name}`]),
        `step complete: ${name}`,
      ]),
    );
    const bodies = traced.filter(({ msg }) => msg === 'body of the leg').map(({ body }) => body);
    expect(bodies[0]).toEqual({ model: 'm', messages: [{ role: 'user', content: '...' }] });
    expect(bodies[1]).toMatchObject({ kv_transfer_params: { do_remote_decode: true } });
    const answers = traced.filter(({ msg }) => msg === 'body of the answer');
    expect(answers[2]).toMatchObject({ body: { usage: { completion_tokens: 2 } } });
    expect(JSON.stringify(test.lines)).not.toContain('a prompt');
  });

  it('has the steps, legs and hand-offs of a batch together', async () => {
    rig = await TestRig.open({
      server: { server_timing: true },
      pipeline: { max_batch_parallel: 1 },
      phases: {
        prefill: { json: prefilled, delay: 20 },
        decode: { json: { id: 'x', choices: [] } },
      },
    });
    const prompt = [[1], [2, 2], [3, 3, 3]];
    const { status, headers } = await rig.post({ model: 'm', prompt }, {}, '/v1/completions');
    expect(status).toBe(200);
    const { steps, legs, handoffs, ms, prompt_tokens: tokens } = await rig.summary();
    expect(tokens).toBe(6);
    expect(await rig.metrics('request_input_tokens')).toEqual({
      'request_input_tokens_sum{model_name="m"}': 6,
      'request_input_tokens_count{model_name="m"}': 1,
    });
    expect(handoffs).toEqual({ kv: { used: 3 } });
    expect(legs).toMatchObject({ prefill: { count: 3 }, decode: { count: 3 } });
    expect(steps).toEqual({
      render: expect.any(Number),
      prefill: expect.any(Number),
      decode: expect.any(Number),
    });
    // One prompt after the other, and each waits 20 ms for prefill: its step lasts as long as all of them.
    const { prefill } = steps as { prefill: number };
    expect(prefill).toBeGreaterThan(55);
    expect(prefill).toBeLessThan(Number(ms));
    expect(String(headers['server-timing']).split(', ')).toHaveLength(3);
  });
});
