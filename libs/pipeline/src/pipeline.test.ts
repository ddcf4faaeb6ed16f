import { TransportError } from '@llm-d/gateway';
import { describe, expect, it } from '@jest/globals';
import { BadRequestError, ClientGoneError } from './errors.ts';
import { Background } from './background.ts';
import { Handoff } from './handoff.ts';
import { Pipeline } from './pipeline.ts';
import { type RequestContext } from './request-context.ts';
import { type StepOutcome } from './step.ts';
import { type NamedStep } from './step-registry.ts';
import { requestContext } from './testing.ts';

const step = (
  type: string,
  run: (ctx: RequestContext) => StepOutcome | Promise<StepOutcome>,
): NamedStep => ({ type, isTerminal: false, run: async (ctx) => run(ctx) });

/** A step that notes that it ran. */
function noting(type: string, ran: string[], outcome: StepOutcome = 'continue'): NamedStep {
  return step(type, () => {
    ran.push(type);
    return outcome;
  });
}

describe('Pipeline', () => {
  it('runs the steps in order', async () => {
    const ran: string[] = [];
    await new Pipeline(['a', 'b', 'c'].map((type) => noting(type, ran))).run(requestContext());
    expect(ran).toEqual(['a', 'b', 'c']);
  });

  it('stops at the step that served', async () => {
    const ran: string[] = [];
    const steps = [noting('a', ran), noting('b', ran, 'served'), noting('c', ran)];
    const ctx = requestContext();
    await new Pipeline(steps).run(ctx);
    expect(ran).toEqual(['a', 'b']);
    expect(ctx.timeline.map(({ name, kind }) => [name, kind])).toEqual([
      ['a', 'step'],
      ['b', 'step'],
    ]);
  });

  it('runs entrances once, before the request is prepared and divided', async () => {
    const ran: string[] = [];
    const steps = [{ ...noting('front', ran), isEntrance: true }, noting('a', ran)];
    const pipeline = new Pipeline(steps, {
      prepare: () => ran.push('prepare'),
      spread: async (ctx, runSteps) => {
        await runSteps(ctx);
        await runSteps(ctx);
      },
    });
    await pipeline.run(requestContext());
    expect(ran).toEqual(['front', 'prepare', 'a', 'a']);
  });

  it('ends at an entrance that served', async () => {
    const ran: string[] = [];
    const steps = [{ ...noting('front', ran, 'served'), isEntrance: true }, noting('a', ran)];
    await new Pipeline(steps, { prepare: () => ran.push('prepare') }).run(requestContext());
    expect(ran).toEqual(['front']);
  });

  it.each([
    { name: 'well', outcome: (): StepOutcome => 'served' },
    {
      name: 'in a failure',
      outcome: (): StepOutcome => {
        throw new Error('no');
      },
    },
  ])('does what a step left for the end when the request ends $name', async ({ outcome }) => {
    const ended: string[] = [];
    const front = step('front', (ctx) => {
      ctx.atEnd(() => ended.push('front'));
      return 'continue';
    });
    const pipeline = new Pipeline([{ ...front, isEntrance: true }, step('a', outcome)]);
    await pipeline.run(requestContext()).catch(() => {});
    expect(ended).toEqual(['front']);
  });

  it('stops at a failure and says which step it was', async () => {
    const ran: string[] = [];
    const failure = new BadRequestError('no', { param: 'prompt' });
    const failing = step('b', () => {
      throw failure;
    });
    const ctx = requestContext();
    const run = new Pipeline([noting('a', ran), failing, noting('c', ran)]).run(ctx);
    await expect(run).rejects.toBe(failure);
    expect(failure).toMatchObject({ step: 'b', code: 'BAD_REQUEST', status: 400, param: 'prompt' });
    expect(ran).toEqual(['a']);
    expect(
      ctx.timeline.every(({ startMs, endMs }) => endMs !== undefined && endMs >= startMs),
    ).toBe(true);
  });

  it('keeps the step that an error names already', async () => {
    const failure = new BadRequestError('no');
    failure.step = 'inner';
    const failing = step('outer', () => {
      throw failure;
    });
    await expect(new Pipeline([failing]).run(requestContext())).rejects.toMatchObject({
      step: 'inner',
    });
  });

  it.each([
    {
      name: 'a call without an answer',
      thrown: new TransportError('reset'),
      code: 'UPSTREAM_UNREACHABLE',
    },
    { name: 'a bug', thrown: new TypeError('x of undefined'), code: 'INTERNAL_ERROR' },
    { name: 'something that is no error', thrown: 'text', code: 'INTERNAL_ERROR' },
  ])('turns $name into an error of its own', async ({ thrown, code }) => {
    const failing = step('b', () => {
      // Steps of other packages may throw what they like.
      throw thrown as Error;
    });
    await expect(new Pipeline([failing]).run(requestContext())).rejects.toMatchObject({
      code,
      step: 'b',
    });
  });

  it('runs no step once the client has left', async () => {
    const ran: string[] = [];
    const signal = AbortSignal.abort(new ClientGoneError());
    const run = new Pipeline([noting('a', ran)]).run(requestContext({ signal }));
    await expect(run).rejects.toMatchObject({ code: 'CLIENT_GONE', status: 499 });
    expect(ran).toEqual([]);
  });

  it('runs no further step when the client leaves between two', async () => {
    const ran: string[] = [];
    const client = new AbortController();
    const leaving = step('a', () => {
      client.abort(new ClientGoneError());
      return 'continue';
    });
    const run = new Pipeline([leaving, noting('b', ran)]).run(
      requestContext({ signal: client.signal }),
    );
    await expect(run).rejects.toMatchObject({ code: 'CLIENT_GONE', step: 'b' });
    expect(ran).toEqual([]);
  });

  it('gives the reason of the abort, not what the cut leg says of it', async () => {
    const client = new AbortController();
    const cut = step('a', () => {
      client.abort(new ClientGoneError());
      throw new TransportError('reset');
    });
    const run = new Pipeline([cut]).run(requestContext({ signal: client.signal }));
    await expect(run).rejects.toMatchObject({ code: 'CLIENT_GONE' });
  });

  it('prepares every request before its first step', async () => {
    const seen: string[] = [];
    const pipeline = new Pipeline(
      [step('a', (ctx) => (seen.push(ctx.body.toString()), 'served'))],
      {
        prepare: (ctx) => {
          ctx.body = ctx.body.with({ prepared: true });
        },
      },
    );
    await pipeline.run(requestContext({ body: '{}' }));
    expect(seen).toEqual(['{"prepared":true}']);
  });

  it('runs the prepared steps as often as a request needs them', async () => {
    const seen: string[] = [];
    const pipeline = new Pipeline([step('a', (ctx) => (seen.push(ctx.requestId), 'served'))], {
      prepare: () => void seen.push('prepared'),
      async spread(ctx, runSteps) {
        await runSteps(ctx);
        await runSteps(requestContext({ requestId: 'second' }));
      },
    });
    await pipeline.run(requestContext({ requestId: 'first' }));
    expect(seen).toEqual(['prepared', 'first', 'second']);
  });

  it('closes what it was given to close', async () => {
    let closed = 0;
    const pipeline = new Pipeline([], { close: () => Promise.resolve(void closed++) });
    await pipeline.close();
    expect(closed).toBe(1);
    await new Pipeline([]).close();
  });
});

describe('the hand-offs of a request', () => {
  const offer = (ctx: RequestContext): Handoff => {
    const handoff = new Handoff({ kind: 'kv', connector: 'kv-nixl' }, () => {});
    (ctx.handoffs ??= []).push(handoff);
    return handoff;
  };

  it.each([
    { name: 'a step served', last: step('b', () => 'served') },
    {
      name: 'a step failed',
      last: step('b', () => {
        throw new Error('broken');
      }),
    },
    { name: 'no step served', last: step('b', () => 'continue') },
  ])('all have their outcome when $name', async ({ last }) => {
    const ctx = requestContext();
    const first = step('a', () => {
      offer(ctx).sent();
      offer(ctx);
      return 'continue';
    });
    await new Pipeline([first, last]).run(ctx).catch(() => {});
    expect(ctx.handoffs?.map(({ state }) => state)).toEqual(['used', 'expired']);
  });

  it('have it when the client leaves between two steps', async () => {
    const client = new AbortController();
    const ctx = requestContext({ signal: client.signal });
    const leaving = step('a', () => {
      offer(ctx);
      client.abort(new ClientGoneError());
      return 'continue';
    });
    await new Pipeline([leaving, noting('b', [])]).run(ctx).catch(() => {});
    expect(ctx.handoffs?.map(({ state }) => state)).toEqual(['expired']);
  });
});

it('a pipeline is idle when its work in the background is done, and closes it before its connections', async () => {
  const events: string[] = [];
  const background = new Background();
  const pipeline = new Pipeline([], {
    background,
    close: () => {
      events.push('connections');
      return Promise.resolve();
    },
  });
  await pipeline.idle();
  background.run(
    0,
    (signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          events.push('work');
          resolve();
        });
      }),
  );
  const idle = pipeline.idle();
  await pipeline.close();
  await idle;
  expect(events).toEqual(['work', 'connections']);
});
