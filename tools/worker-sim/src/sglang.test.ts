import { describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import { type Answer, askPrefill, generatePath, idsOf, post, workerFarm } from './testing.ts';
import { type Worker } from './worker.ts';

const start = workerFarm();

async function pair(): Promise<{ prefiller: Worker; decoder: Worker }> {
  const kvConnector = 'sglang' as const;
  return {
    prefiller: await start({ role: 'prefill', podName: 'prefill-1', kvConnector }),
    decoder: await start({ role: 'decode', podName: 'decode-1', kvConnector }),
  };
}

const meetingAt = ({ bootstrapPort }: Worker, room: unknown = 7) => ({
  bootstrap_host: '127.0.0.1',
  bootstrap_port: bootstrapPort,
  bootstrap_room: room,
});

/** A leg in the tokens-in form; prefill and decode of one request differ in their limit. */
const send = (
  worker: Worker,
  members: object,
  { maxTokens = 1, ids = idsOf(1) } = {},
): Promise<Answer> =>
  post(worker.url + generatePath, {
    token_ids: ids,
    sampling_params: { max_tokens: maxTokens },
    ...members,
  });
const decode = { maxTokens: 4 };

/** Resolves when somebody waits in a room of this pod. */
async function someoneWaits(prefiller: Worker): Promise<void> {
  while (prefiller.state().rooms.waiting === 0) await new Promise(setImmediate);
}

describe('two SGLang pods', () => {
  it('meet: prefill answers only when decode has come', async () => {
    const { prefiller, decoder } = await pair();
    const members = meetingAt(prefiller);
    let isAnswered = false;
    const prefill = send(prefiller, members).finally(() => {
      isAnswered = true;
    });
    await someoneWaits(prefiller);
    expect(isAnswered).toBe(false);
    const answer = await send(decoder, members, decode);
    expect([(await prefill).status, answer.status]).toEqual([200, 200]);
    expect(decoder.requests()[0]?.kv).toEqual({ source: 'external', pod: 'prefill-1', blocks: 3 });
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(0);
    expect(prefiller.state().rooms.waiting).toBe(0);
  });

  it.each([7, '7', 9007199254740991, 'a-room'])(
    'meet when decode comes first, in the room %j',
    async (room) => {
      const { prefiller, decoder } = await pair();
      const members = meetingAt(prefiller, room);
      const answer = send(decoder, members, decode);
      await someoneWaits(prefiller);
      expect((await send(prefiller, members)).status).toBe(200);
      expect((await answer).status).toBe(200);
    },
  );

  it('fail both when they were given different prompts', async () => {
    const { prefiller, decoder } = await pair();
    const members = meetingAt(prefiller);
    const answers = await Promise.all([
      send(prefiller, members),
      send(decoder, members, { ...decode, ids: idsOf(2) }),
    ]);
    for (const { status, text } of answers) {
      expect(status).toBe(500);
      expect(text).toContain('KV transfer failed: other-prompt');
    }
  });

  it('do not meet twice in one room', async () => {
    const { prefiller, decoder } = await pair();
    const members = meetingAt(prefiller);
    await Promise.all([send(prefiller, members), send(decoder, members, decode)]);
    const again = await send(decoder, members, decode);
    expect(again.status).toBe(500);
    expect(again.text).toContain('KV transfer failed: taken');
  });

  it('wait for nobody for ever: past the limit it is a 500, and counted', async () => {
    const prefiller = await start({ role: 'prefill', kvConnector: 'sglang', roomTimeoutMs: 30 });
    const decoder = await start({ role: 'decode', kvConnector: 'sglang', roomTimeoutMs: 30 });
    const members = meetingAt(prefiller);
    for (const worker of [prefiller, decoder]) {
      const answer = await send(worker, members, worker === decoder ? decode : {});
      expect(answer.status).toBe(500);
      expect(answer.text).toContain('nobody came to the bootstrap room in time');
      expect(worker.state().counters['sim_room_abandoned_total']).toBe(1);
    }
  });

  it('leave the room with the client, and are counted', async () => {
    const { prefiller, decoder } = await pair();
    const members = meetingAt(prefiller);
    for (const worker of [decoder, prefiller]) {
      const client = new AbortController();
      const leaving = request(worker.url + generatePath, {
        method: 'POST',
        signal: client.signal,
        body: JSON.stringify({ token_ids: [1], sampling_params: { max_tokens: 1 }, ...members }),
      });
      await someoneWaits(prefiller);
      client.abort();
      await expect(leaving).rejects.toThrow();
      while (prefiller.state().rooms.waiting > 0) await new Promise(setImmediate);
      while (worker.state().running > 0) await new Promise(setImmediate);
      expect(worker.state().counters['sim_room_abandoned_total']).toBe(1);
      expect(worker.requests()[0]?.outcome.status).toBe('aborted');
    }
  });

  it.each([
    { name: 'no members', change: () => ({}), says: 'received no bootstrap members' },
    {
      name: 'no room',
      change: (worker: Worker) => ({ ...meetingAt(worker), bootstrap_room: undefined }),
      says: 'received no bootstrap members',
    },
    {
      name: 'transfer params',
      change: (worker: Worker) => ({ ...meetingAt(worker), kv_transfer_params: askPrefill }),
      says: 'received kv_transfer_params',
    },
  ])('refuse $name', async ({ change, says }) => {
    const { prefiller, decoder } = await pair();
    for (const worker of [prefiller, decoder]) {
      const answer = await send(worker, change(prefiller));
      expect(answer.status).toBe(400);
      expect(answer.text).toContain(says);
      expect(worker.state().counters['sim_role_violation_total']).toBe(1);
    }
  });

  it('refuse a prefill whose room is at another pod', async () => {
    const { prefiller } = await pair();
    const other = await start({ role: 'prefill', kvConnector: 'sglang' });
    const answer = await send(other, meetingAt(prefiller));
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('name another pod');
  });

  it('fail a decode that is sent where nobody listens', async () => {
    const { decoder } = await pair();
    const answer = await send(decoder, { ...meetingAt(decoder), bootstrap_port: 9 }, decode);
    expect(answer.status).toBe(500);
    expect(answer.text).toContain('KV transfer failed: unreachable');
  });

  it('send everybody away when the prefill pod is started anew', async () => {
    const { prefiller, decoder } = await pair();
    const answer = send(decoder, meetingAt(prefiller), decode);
    await someoneWaits(prefiller);
    prefiller.reset();
    expect((await answer).text).toContain('KV transfer failed: pod-restarted');
  });
});
