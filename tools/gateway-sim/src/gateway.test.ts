import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
  type ServerResponse,
} from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { Client, request } from 'undici';
import { call, endpoint, generateBody, peerFarm } from './testing.ts';

const { pod, rawServer, gateway } = peerFarm();
const asDecode = { 'epp-profile': 'decode', 'x-request-id': 'r-1' };
const ifAvailable = { ...asDecode, prefer: 'if-available' };

describe('the internal listener', () => {
  it('sends each profile to a pod of that role and shows the picks by request id', async () => {
    const pods = { encode: await pod(), prefill: await pod(), decode: await pod() };
    const { internalUrl, adminUrl } = await gateway({
      endpoints: Object.entries(pods).map(([role, { port }]) => endpoint(`${role}-1`, role, port)),
    });
    for (const profile of ['encode', 'prefill', 'decode']) {
      const answer = await call(internalUrl, { 'epp-profile': profile, 'x-request-id': 'r-7' });
      expect(answer.status).toBe(200);
    }
    await call(internalUrl, { ...asDecode });
    expect(Object.values(pods).map(({ received }) => received.length)).toEqual([1, 1, 2]);
    const picks = await request(`${adminUrl}/picks?request_id=r-7`);
    const { picks: legs } = (await picks.body.json()) as { picks: { pod: string }[] };
    expect(legs.map((leg) => leg.pod)).toEqual(['encode-1', 'prefill-1', 'decode-1']);
  });

  it('hands the pod what a pod behind the EPP gets: chunked body, own address, no hop-by-hop headers', async () => {
    const decoder = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const body = '{ "model":"m", "token_ids":[1 ,2], "seed":9007199254740993 }';
    await call(internalUrl, { ...asDecode, 'x-custom': 'kept' }, body);
    const [received] = decoder.received;
    expect(received?.sha256).toBe(createHash('sha256').update(body).digest('hex'));
    expect(received?.headers).toMatchObject({
      'transfer-encoding': 'chunked',
      'x-gateway-destination-endpoint': `127.0.0.1:${decoder.port}`,
      'epp-profile': 'decode',
      'x-request-id': 'r-1',
      'x-custom': 'kept',
    });
    expect(received?.headers['content-length']).toBeUndefined();
  });

  it.each([
    { name: 'no profile', headers: {}, status: 404, text: '' },
    {
      name: 'an unknown profile, also in the wrong case',
      headers: { 'epp-profile': 'Decode', 'x-request-id': 'r-2' },
      status: 429,
      text: 'inference error: ResourceExhausted - failed to find target endpoint: failed to run any scheduler profile for request r-2',
    },
    {
      name: 'a blank profile, which means decode',
      headers: { 'epp-profile': ' ' },
      status: 200,
      text: '{"ok":true}',
    },
    {
      name: 'a role without a pod',
      headers: { 'epp-profile': 'encode' },
      status: 429,
      text: 'inference error: ResourceExhausted - no endpoints available for the given request',
    },
  ])('answers $status to $name', async ({ headers, status, text }) => {
    const decoder = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const answer = await call(internalUrl, headers);
    expect(answer).toMatchObject({ status, text });
    if (status === 429 && text.includes('no endpoints')) {
      expect(answer.headers['x-llm-d-request-dropped-reason']).toBe('rejected-saturated');
    }
  });

  it('answers 503 rejected-no-endpoints when the pool is empty', async () => {
    const { internalUrl } = await gateway({});
    const answer = await call(internalUrl, asDecode);
    expect(answer.status).toBe(503);
    expect(answer.headers['x-llm-d-request-dropped-reason']).toBe('rejected-no-endpoints');
  });

  it('answers 400 to a body its parser cannot read, and passes paths of no parser', async () => {
    const decoder = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    expect((await call(internalUrl, asDecode, '{')).status).toBe(400);
    expect((await call(internalUrl, asDecode, '{}')).status).toBe(400);
    expect((await call(internalUrl, asDecode, 'anything', '/tokenize')).status).toBe(200);
  });

  it('sends a call without body to any pod', async () => {
    const encoder = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('e', 'encode', encoder.port)] });
    const answer = await request(`${internalUrl}/v1/models`, { headers: asDecode });
    expect(await answer.body.text()).toBe('{"ok":true}');
    expect(encoder.received[0]?.url).toBe('/v1/models');
  });
});

describe('the 412 gate', () => {
  it.each([
    { gate: 'decider' as const, statuses: [412, 200, 200] },
    { gate: 'legacy' as const, statuses: [412, 200, 200] },
    { gate: 'always412' as const, statuses: [412, 200, 412] },
    { gate: 'off' as const, statuses: [200, 200, 200] },
  ])('$gate: probe, decode, probe again', async ({ gate, statuses }) => {
    const decoder = await pod();
    const { internalUrl } = await gateway({
      gate,
      endpoints: [endpoint('d', 'decode', decoder.port)],
    });
    const answers = [
      await call(internalUrl, ifAvailable),
      await call(internalUrl, asDecode),
      await call(internalUrl, ifAvailable),
    ];
    expect(answers.map(({ status }) => status)).toEqual(statuses);
    const refused = answers.find(({ status }) => status === 412);
    if (refused) {
      expect(refused.text).toHaveLength(81);
      expect(refused.headers['content-type']).toBe('text/plain');
    }
  });

  it.each([
    { gate: 'decider' as const, status: 412 },
    { gate: 'legacy' as const, status: 500 },
  ])('$gate after a decode that failed: $status', async ({ gate, status }) => {
    const decoder = await pod((response) => response.writeHead(500).end());
    const { internalUrl } = await gateway({
      gate,
      endpoints: [endpoint('d', 'decode', decoder.port)],
    });
    await call(internalUrl, asDecode);
    expect((await call(internalUrl, ifAvailable)).status).toBe(status);
  });

  it('keeps sending a known prompt to the pod that has it', async () => {
    const pods = [await pod(), await pod()];
    const { internalUrl } = await gateway({
      endpoints: pods.map(({ port }, index) => endpoint(`d-${index}`, 'decode', port)),
    });
    for (let index = 0; index < 6; index += 1) await call(internalUrl, asDecode);
    expect(pods.map(({ received }) => received.length).sort()).toEqual([0, 6]);
  });
});

describe('streams', () => {
  const twoParts = (): {
    answer: (response: ServerResponse) => void;
    open: Promise<ServerResponse>;
  } => {
    const opened = Promise.withResolvers<ServerResponse>();
    return {
      open: opened.promise,
      answer: (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: 1\n\n');
        opened.resolve(response);
      },
    };
  };

  it('pass chunk by chunk, with trailers', async () => {
    const { answer, open } = twoParts();
    const decoder = await pod(answer);
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const { body, trailers } = await request(`${internalUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: asDecode,
      body: generateBody(),
    });
    const chunks = body[Symbol.asyncIterator]();
    // The pod has not gone on yet, so nothing was held back.
    expect(String((await chunks.next()).value)).toBe('data: 1\n\n');
    const podSide = await open;
    podSide.addTrailers({ 'x-tail': 'yes' });
    podSide.end('data: 2\n\n');
    expect(String((await chunks.next()).value)).toBe('data: 2\n\n');
    expect((await chunks.next()).done).toBe(true);
    expect(trailers).toEqual({ 'x-tail': 'yes' });
  });

  it('a caller that leaves mid-stream cuts the pod’s call; the leg says DC', async () => {
    const { answer, open } = twoParts();
    const decoder = await pod(answer);
    const gate = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const { body } = await request(`${gate.internalUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: asDecode,
      body: generateBody(),
    });
    const podSide = await open;
    const closed = once(podSide, 'close');
    body.on('error', () => undefined).destroy();
    await closed;
    while (gate.legs('r-1').length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(gate.legs('r-1')[0]).toMatchObject({ status: 200, flags: 'DC' });
  });

  it('a caller that leaves before headers cuts the pod’s call too', async () => {
    const opened = Promise.withResolvers<ServerResponse>();
    const decoder = await pod((response) => opened.resolve(response));
    const gate = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const abort = new AbortController();
    const answer = request(`${gate.internalUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: asDecode,
      body: generateBody(),
      signal: abort.signal,
    });
    const podSide = await opened.promise;
    const closed = once(podSide, 'close');
    abort.abort();
    await expect(answer).rejects.toThrow();
    await closed;
    while (gate.legs('r-1').length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(gate.legs('r-1')[0]).toMatchObject({ status: 0, flags: 'DC' });
  });

  it('a pod that resets mid-stream cuts the caller; the leg says UPE', async () => {
    const { answer, open } = twoParts();
    const decoder = await pod(answer);
    const gate = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const { body } = await request(`${gate.internalUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: asDecode,
      body: generateBody(),
    });
    (await open).destroy();
    await expect(body.text()).rejects.toThrow();
    expect(gate.legs('r-1')[0]).toMatchObject({ status: 200, flags: 'UPE' });
  });

  it('a slow reader slows the pod down instead of filling memory', async () => {
    const size = 64 * 1024 * 1024;
    let written = 0;
    const blocked = Promise.withResolvers<void>();
    const decoder = await pod((response) => {
      const chunk = Buffer.alloc(1024 * 1024);
      const more = (): void => {
        while (written < size) {
          written += chunk.length;
          if (response.write(chunk)) continue;
          // Two turns without drain mean that everything in between is full.
          const timer = setTimeout(blocked.resolve, 200);
          response.once('drain', () => {
            clearTimeout(timer);
            more();
          });
          return;
        }
        response.end();
      };
      more();
    });
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const { body } = await request(`${internalUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: asDecode,
      body: generateBody(),
    });
    await blocked.promise;
    expect(written).toBeLessThan(size / 2);
    let read = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) read += chunk.length;
    expect(read).toBe(size);
  });

  it('a 40 MB body arrives byte for byte', async () => {
    const decoder = await pod();
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const body = Buffer.alloc(40 * 1024 * 1024, 'x');
    expect((await call(internalUrl, asDecode, body)).status).toBe(200);
    expect(decoder.received[0]).toMatchObject({
      bytes: body.length,
      sha256: createHash('sha256').update(body).digest('hex'),
    });
  });
});

it('a phase body over the limit is 413', async () => {
  const { internalUrl } = await gateway({ bodyLimitMb: 1 });
  expect((await call(internalUrl, asDecode, Buffer.alloc(3 * 1024 * 1024))).status).toBe(413);
});

describe('pods that fail', () => {
  it('a refused connection is 503 UF and takes the pod out for a while', async () => {
    const gone = await gateway({});
    const deadPort = Number(new URL(gone.internalUrl).port);
    await gone.close();
    const decoder = await pod();
    const gate = await gateway({
      healthIntervalMs: 600_000,
      endpoints: [endpoint('dead', 'decode', deadPort), endpoint('live', 'decode', decoder.port)],
    });
    const statuses: number[] = [];
    for (let index = 0; index < 20; index += 1) {
      statuses.push((await call(gate.internalUrl, asDecode, generateBody(index + 1))).status);
    }
    expect(statuses.filter((status) => status === 503)).toHaveLength(1);
    expect(gate.legs().find(({ status }) => status === 503)).toMatchObject({
      pod: 'dead',
      flags: 'UF',
    });
  });

  it('a reset before headers is 503 UC', async () => {
    const decoder = await pod((response) => response.destroy());
    const gate = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const answer = await call(gate.internalUrl, asDecode);
    expect(answer.status).toBe(503);
    expect(answer.text).toContain('reset reason: connection termination');
    expect(gate.legs('r-1')[0]?.flags).toBe('UC');
  });

  it('a pod’s own refusal passes with body and headers', async () => {
    const decoder = await pod((response) =>
      response.writeHead(429, { 'retry-after': '7' }).end('{"error":{}}'),
    );
    const { internalUrl } = await gateway({ endpoints: [endpoint('d', 'decode', decoder.port)] });
    const answer = await call(internalUrl, asDecode);
    expect(answer).toMatchObject({ status: 429, text: '{"error":{}}' });
    expect(answer.headers['retry-after']).toBe('7');
  });
});

describe('the public listener', () => {
  it('strips what would choose pods, keeps the rest and the bytes, makes a request id', async () => {
    const coordinator = await pod();
    const { publicUrl } = await gateway({ coordinator: coordinator.url });
    const body = generateBody();
    await call(
      publicUrl,
      {
        'epp-profile': 'decode',
        prefer: 'if-available',
        'x-prefiller-host-port': '10.0.0.1:8000',
        'x-gateway-destination-endpoint': '10.0.0.1:8000',
        authorization: 'Bearer client',
        'x-request-id': 'has blank',
      },
      body,
    );
    const [received] = coordinator.received;
    expect(received?.sha256).toBe(createHash('sha256').update(body).digest('hex'));
    expect(Object.keys(received?.headers ?? {})).not.toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^(epp-profile|prefer|x-prefiller.*|x-gateway.*)$/),
      ]),
    );
    expect(received?.headers).toMatchObject({
      authorization: 'Bearer client',
      'content-length': String(body.length),
      'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
  });

  it('has several coordinators take turns', async () => {
    const coordinators = [await pod(), await pod()];
    const { publicUrl } = await gateway({
      coordinator: coordinators.map(({ url }) => url).join(','),
    });
    for (let turn = 0; turn < 4; turn++) {
      expect((await call(publicUrl, {}, generateBody())).status).toBe(200);
    }
    expect(coordinators.map(({ received }) => received.length)).toEqual([2, 2]);
    await expect(gateway({ coordinator: 'http://a,b' })).rejects.toThrow(/expected URLs/);
  });

  it.each(['/tokenize', '/v1/requests', '/admin/reset', '/'])('answers 404 to %s', async (path) => {
    const { publicUrl } = await gateway({ coordinator: 'http://127.0.0.1:9' });
    expect((await call(publicUrl, {}, '{}', path)).status).toBe(404);
  });

  /** A client that has sent half of its body. */
  async function halfSent(url: string): Promise<ClientRequest> {
    const { port } = new URL(url);
    const client = httpRequest({ port, method: 'POST', path: '/v1/completions' });
    client.on('error', () => undefined);
    client.write(Buffer.alloc(1024 * 1024));
    await once(client, 'socket');
    return client;
  }

  it('a client that leaves mid-upload cuts the coordinator’s call', async () => {
    const opened = Promise.withResolvers<IncomingMessage>();
    const coordinator = await rawServer((request) => {
      request.on('error', () => undefined).resume();
      opened.resolve(request);
    });
    const gate = await gateway({ coordinator });
    const client = await halfSent(gate.publicUrl);
    const upload = await opened.promise;
    const closed = new Promise((resolve) => upload.once('close', resolve));
    client.destroy();
    await closed;
    while (gate.legs().length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(gate.legs()[0]).toMatchObject({ leg: 'client', flags: 'DC', status: 0 });
  });

  it('a coordinator that dies mid-upload is 503 for the client', async () => {
    const coordinator = await rawServer((request) => request.once('data', () => request.destroy()));
    const { publicUrl } = await gateway({ coordinator });
    const client = await halfSent(publicUrl);
    const [answer] = (await once(client, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(503);
    client.destroy();
  });

  it('a refusal before the upload has ended reaches the client', async () => {
    const coordinator = await rawServer((request, response) => {
      request.resume();
      response.writeHead(413).end('too large');
    });
    const { publicUrl } = await gateway({ coordinator });
    const client = await halfSent(publicUrl);
    const [answer] = (await once(client, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(413);
    client.destroy();
  });

  it('a refused upload leaves the connection of the client usable', async () => {
    const coordinator = await rawServer((request, response) => {
      const isLarge = Number(request.headers['content-length']) > 1000;
      request.resume();
      response.writeHead(isLarge ? 413 : 200).end();
    });
    const { publicUrl } = await gateway({ coordinator });
    const client = new Client(publicUrl);
    const post = async (bytes: number): Promise<number> => {
      const body = Buffer.alloc(bytes, 'x');
      const answer = await client.request({ path: '/v1/completions', method: 'POST', body });
      await answer.body.dump();
      return answer.statusCode;
    };
    expect(await post(2_000_000)).toBe(413);
    expect(await post(10)).toBe(200);
    await client.close();
  });

  it('answers 503 when the coordinator is down', async () => {
    const { publicUrl } = await gateway({ coordinator: 'http://127.0.0.1:9' });
    expect((await call(publicUrl)).status).toBe(503);
  });

  it('in single-listener mode the profile header decides', async () => {
    const coordinator = await pod();
    const decoder = await pod();
    const { publicUrl } = await gateway({
      singleListener: true,
      coordinator: coordinator.url,
      endpoints: [endpoint('d', 'decode', decoder.port)],
    });
    await call(publicUrl);
    await call(publicUrl, asDecode);
    expect([coordinator.received.length, decoder.received.length]).toEqual([1, 1]);
  });
});

it('a taken port fails the start and leaves nothing open', async () => {
  const { adminUrl } = await gateway({});
  const adminPort = Number(new URL(adminUrl).port);
  await expect(gateway({ adminPort })).rejects.toThrow('EADDRINUSE');
});
