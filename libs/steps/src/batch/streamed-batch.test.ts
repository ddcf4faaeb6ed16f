import { ClientGoneError } from '@llm-d/pipeline';
import { type Answer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Rig } from '../testing.ts';
import {
  completion,
  done as doneMark,
  event,
  firstId,
  playBatch,
  startBatch,
  stream,
  usageEvent,
} from './testing.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
});
afterEach(() => rig.close());

const prompts = [[10], [20], [30]];
const asked = { prompt: prompts, stream: true };

/** Index and text of every event with a choice. */
const said = (events: unknown[]): string[] =>
  events.flatMap((value) => {
    const choices = (value as { choices?: { index: number; text: string }[] }).choices ?? [];
    return choices.map(({ index, text }) => `${index} ${text}`);
  });

describe('a batch that is streamed', () => {
  it('passes events on as they come, with one id, their places, and one end', async () => {
    const later = Promise.withResolvers<void>();
    playBatch(rig, (id) => {
      const own = `cmpl-${id}`;
      return id === 10
        ? stream(event(own, 0, 'a'), { wait: later.promise }, event(own, 0, 'b'), doneMark)
        : stream({ wait: sink.seen('"text":"a"') }, event(own, 0, `x${id}`), doneMark);
    });
    const { sink, done } = startBatch(rig, asked);
    await sink.seen('x20');
    await sink.seen('x30');
    expect(sink.text).not.toContain('[DONE]');
    later.resolve();
    await done;
    expect(sink).toMatchObject({ status: 200, ended: 'whole' });
    expect(sink.headers.join()).toContain('content-type,text/event-stream');
    const events = sink.events;
    const [first, , , last, end] = events;
    expect(events).toHaveLength(5);
    expect(said([first, last])).toEqual(['0 a', '0 b']);
    expect(said(events).toSorted()).toEqual(['0 a', '0 b', '1 x20', '2 x30']);
    expect(end).toBe('[DONE]');
    const ids = events.slice(0, 4).map((value) => (value as { id: string }).id);
    expect(new Set(ids)).toEqual(new Set(['cmpl-10']));
  });

  it('changes nothing of an event but id, created and index', async () => {
    const text =
      '{ "id":"cmpl-9","created":17, "choices":[{"index":0, "text":"\\u00e9","logprobs":{"token_logprobs":[-Infinity,9007199254740993]}}],"usage":null}';
    playBatch(rig, (id) =>
      id === 10
        ? stream(`data: ${text}\n\n`, doneMark)
        : stream(
            { wait: sink.seen('cmpl-9') },
            `: ping\r\n\r\ndata:${text.replace('cmpl-9', 'other').replace('17', '18')}\r\n\r\n`,
            doneMark,
          ),
    );
    const { sink, done } = startBatch(rig, { prompt: [[10], [20]], stream: true });
    await done;
    expect(sink.text).toBe(
      `data: ${text}\n\n: ping\r\n\r\ndata:${text.replace('"index":0', '"index":1')}\r\n\r\n${doneMark}`,
    );
  });

  it('gives sample j of prompt i the index i * n + j', async () => {
    playBatch(rig, (id) => stream(event('x', 1, `${id}b`), event('x', 0, `${id}a`), doneMark));
    const { sink, done } = startBatch(rig, { ...asked, n: 2 });
    await done;
    expect(said(sink.events).toSorted()).toEqual([
      ...['0 10a', '1 10b', '2 20a', '3 20b', '4 30a', '5 30b'],
    ]);
  });

  it('has one usage event with the sums (C07)', async () => {
    playBatch(rig, (id) => stream(event('x', 0, 'a'), usageEvent('x', id, 2), doneMark));
    const { sink, done } = startBatch(rig, {
      ...asked,
      stream_options: { include_usage: true },
    });
    await done;
    const [usage, end] = sink.events.slice(-2);
    expect(sink.events).toHaveLength(5);
    expect(usage).toEqual({
      ...{ id: 'x', object: 'text_completion', created: 17, model: 'm', choices: [] },
      usage: { prompt_tokens: 60, total_tokens: 66, completion_tokens: 6 },
    });
    expect(end).toBe('[DONE]');
    expect(rig.bodies('decode')).toContainEqual(
      expect.objectContaining({ stream: true, stream_options: { include_usage: true } }),
    );
  });

  it('leaves running counts of a choice as they are (continuous_usage_stats)', async () => {
    const counts = ',"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}';
    playBatch(rig, () => stream(event('x', 0, 'a', counts), usageEvent('x', 5, 1), doneMark));
    const { sink, done } = startBatch(rig, asked);
    await done;
    expect(sink.text.split(counts)).toHaveLength(4);
    expect(sink.events.at(-2)).toMatchObject({ choices: [], usage: { total_tokens: 18 } });
  });

  it.each([1, 3, 17])('reads events that are cut anywhere (%d bytes a piece)', async (size) => {
    playBatch(rig, (id) => {
      const bytes = Buffer.from(event('x', 0, `é🌍${id}`) + doneMark);
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
      return stream(...pieces);
    });
    const { sink, done } = startBatch(rig, asked);
    await done;
    expect(said(sink.events).toSorted()).toEqual(['0 é🌍10', '1 é🌍20', '2 é🌍30']);
  });

  it('serves 64 prompts, some at a time', async () => {
    const many = Array.from({ length: 64 }, (_, i) => [i + 1]);
    playBatch(rig, (id) => stream(event('x', 0, `t${id}`), doneMark));
    const { sink, done } = startBatch(rig, { prompt: many, stream: true }, { parallel: 7 });
    await done;
    expect(new Set(said(sink.events))).toEqual(new Set(many.map(([id], i) => `${i} t${id}`)));
    expect(sink.events.filter((value) => value === '[DONE]')).toHaveLength(1);
  });

  it('holds every worker back while the client reads slowly (C09)', async () => {
    const text = event('x', 0, 'z'.repeat(60_000));
    const endless = function* (): Generator<string> {
      for (;;) yield text;
    };
    playBatch(rig, () => ({ ...stream(), chunks: endless() }));
    const { sink, client, done } = startBatch(rig, { prompt: [[10], [20]], stream: true });
    sink.accepts = false;
    await sink.seen('"index":0');
    await sink.seen('"index":1');
    /** What the workers could write until nothing moves any more. */
    const settled = async (): Promise<number> => {
      for (let before = -1; ;) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        const now = rig.legs('decode').reduce((sum, { sentBytes }) => sum + sentBytes, 0);
        if (now === before) return now;
        before = now;
      }
    };
    const held = await settled();
    const got = sink.pieces.length;
    expect(held).toBeLessThan(32 * 1024 * 1024);
    sink.accepts = true;
    sink.drain();
    while (sink.pieces.length < got + 200) await new Promise((resolve) => setTimeout(resolve, 5));
    const places = new Set(
      sink.pieces
        .slice(got)
        .map((piece) => /"index":(\d)/.exec(Buffer.from(piece).toString())?.[1]),
    );
    expect(places).toEqual(new Set(['0', '1']));
    client.abort(new ClientGoneError());
    await expect(done).rejects.toBeInstanceOf(ClientGoneError);
  });
});

describe('a streamed batch that fails', () => {
  /** The first prompt says something, then the second one does `answer`. */
  const afterFirst = (answer: (wait: { wait: Promise<unknown> }) => Answer) => {
    playBatch(rig, (id) => {
      const others = [sink.seen('"text":"a"'), rig.gateway.received(5)];
      if (id === 20) return answer({ wait: Promise.all(others) });
      return stream(...(id === 10 ? [event('x', 0, 'a')] : []), { end: 'hang' });
    });
    const { sink, ctx, done } = startBatch(rig, asked);
    return { sink, ctx, done };
  };

  it('answers with a status as long as nothing was sent', async () => {
    playBatch(rig, (id) => (id === 20 ? { status: 500 } : stream({ end: 'hang' })));
    const { sink, done } = startBatch(rig, asked);
    await expect(done).rejects.toMatchObject({ status: 502, code: 'GATEWAY_PICKER_DOWN' });
    expect(sink.isStarted).toBe(false);
    await Promise.all(rig.gateway.calls.map((call) => call.ended));
  });

  it.each([
    {
      name: 'breaks off (C03)',
      answer: (wait: { wait: Promise<unknown> }) =>
        stream(wait, event('x', 0, 'b'), { wait: 5 }, { end: 'close' }),
      error: {
        code: 'UPSTREAM_UNREACHABLE',
        message:
          'decode: the upstream closed the connection before its answer was complete (request_id: test-1)',
        step: 'decode',
        request_id: 'test-1',
      },
    },
    {
      name: 'breaks off inside an event',
      answer: (wait: { wait: Promise<unknown> }) =>
        stream(wait, 'data: {"id":"x","choi', { wait: 5 }, { end: 'close' }),
      error: { code: 'UPSTREAM_UNREACHABLE' },
    },
    {
      name: 'ends without [DONE]',
      answer: (wait: { wait: Promise<unknown> }) => stream(wait, event('x', 0, 'b')),
      error: { code: 'UPSTREAM_ANSWER_INVALID' },
    },
    {
      name: 'sends what is no completion',
      answer: (wait: { wait: Promise<unknown> }) => stream(wait, 'data: {"id":"x"\n\n', doneMark),
      error: { code: 'UPSTREAM_ANSWER_INVALID' },
    },
    {
      name: 'answers without streaming',
      answer: ({ wait }: { wait: Promise<unknown> }) => ({
        delay: wait,
        json: completion('x', ['b'], 1),
      }),
      error: { code: 'UPSTREAM_ANSWER_INVALID' },
    },
    {
      name: 'refuses',
      answer: ({ wait }: { wait: Promise<unknown> }) => ({
        delay: wait,
        status: 422,
        json: { error: { message: 'SECRET' } },
      }),
      error: {
        code: 'UPSTREAM_ERROR',
        message: 'decode: upstream returned HTTP 422 (request_id: test-1)',
      },
    },
    {
      name: 'reports a failure itself',
      answer: (wait: { wait: Promise<unknown> }) =>
        stream(wait, 'data: {"error": {"message":"oom","code":500}}\n\n', doneMark),
      error: { message: 'oom', code: 500 },
    },
  ])('ends with one error event when a worker $name', async ({ answer, error }) => {
    const { sink, done } = afterFirst(answer);
    await expect(done).rejects.toThrow('decode');
    const { events } = sink;
    expect(events.at(-1)).toMatchObject({ error });
    expect(events.filter((value) => JSON.stringify(value).includes('"error"'))).toHaveLength(1);
    expect(said(events)[0]).toBe('0 a');
    expect(sink.text).not.toContain('[DONE]');
    expect(sink.text).not.toContain('SECRET');
    expect(sink.ended).toBe('whole');
    await Promise.all(rig.gateway.calls.map((call) => call.ended));
    const others = rig.legs('decode').filter((call) => firstId(call) !== 20);
    expect(others.every(({ aborted }) => aborted)).toBe(true);
  });

  it('ends all legs when the client leaves, and sends nothing more', async () => {
    playBatch(rig, (id) => stream(event('x', 0, `t${id}`), { end: 'hang' }));
    const { sink, client, done } = startBatch(rig, asked);
    await Promise.all(['t10', 't20', 't30'].map((text) => sink.seen(text)));
    const before = sink.text;
    client.abort(new ClientGoneError());
    await expect(done).rejects.toBeInstanceOf(ClientGoneError);
    expect(sink.text).toBe(before);
    expect(sink.ended).toBe('cut');
    await Promise.all(rig.gateway.calls.map((call) => call.ended));
    expect(rig.legs('decode').map(({ aborted }) => aborted)).toEqual([true, true, true]);
  });
});
