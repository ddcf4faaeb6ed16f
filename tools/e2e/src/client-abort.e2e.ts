import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, drawImage, until } from '@llm-d/soak';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { ask, open } from './ask.ts';
import { onePodEach, type PodRecord, startTestStack, type TestStack } from './test-stack.ts';

/** From the client's close to the end of the work for it (cases.md C04). */
const abortLimitMs = 500;
const path = '/v1/chat/completions';
const minute = 60_000;

let stack: TestStack;
let hangingRender: ScriptedServer;
const urls: Record<string, string> = {};

beforeAll(async () => {
  // With the gate off every conditional decode reaches the worker.
  stack = await startTestStack({ workers: onePodEach, gatewayFlags: ['--gate', 'off'] });
  hangingRender = await scriptedServer({ beforeHeaders: 'hang' });
  urls['coordinator'] = stack.publicUrl;
  urls['conditional'] = await stack.startCoordinator('conditional', {
    steps: ['replace-media-urls', 'render', 'conditional-decode', 'encode', 'prefill', 'decode'],
  });
  urls['render-hangs'] = await stack.startCoordinator('render-hangs', {
    renderUrl: hangingRender.url,
  });
});

afterAll(async () => {
  await stack.stop();
  await hangingRender.close();
});

afterEach(async () => {
  for (const role of ['encode', 'prefill', 'decode'] as const) {
    await stack.configure(role, { fault: '', prefillOverheadMs: 0 });
  }
});

interface Phase {
  readonly step: string;
  readonly when: string;
  readonly coordinator: string;
  readonly role: PodRecord['role'];
  /** Keeps the workers of the role busy. */
  readonly slow: object;
  /** Whether a worker has got as far as it shall. */
  readonly isAtWork: (record: PodRecord) => boolean;
  /** Legs that were sent when the client leaves. */
  readonly legs: readonly string[];
  readonly isStreamed: boolean;
}

const isRunning = ({ outcome }: PodRecord): boolean => outcome.status === 'running';

const twice = (phase: Omit<Phase, 'isStreamed'>): Phase[] =>
  [false, true].map((isStreamed) => ({ ...phase, isStreamed }));

const phases: readonly Omit<Phase, 'isStreamed'>[] = [
  {
    step: 'conditional-decode',
    when: 'while a conditional decode runs',
    coordinator: 'conditional',
    role: 'decode',
    slow: { fault: 'hang' },
    isAtWork: isRunning,
    legs: ['decode'],
  },
  {
    step: 'encode',
    when: 'while two pictures are encoded',
    coordinator: 'coordinator',
    role: 'encode',
    slow: { fault: 'hang' },
    isAtWork: isRunning,
    legs: ['encode', 'encode'],
  },
  {
    step: 'prefill',
    when: 'while prefill computes',
    coordinator: 'coordinator',
    role: 'prefill',
    slow: { prefillOverheadMs: minute },
    isAtWork: (record) => isRunning(record) && record.phase === 'prefill',
    legs: ['encode', 'encode', 'prefill'],
  },
  {
    step: 'decode',
    when: 'before the first byte of decode',
    coordinator: 'coordinator',
    role: 'decode',
    slow: { fault: 'hang' },
    isAtWork: isRunning,
    legs: ['encode', 'encode', 'prefill', 'decode'],
  },
  {
    step: 'decode',
    when: 'in the middle of the answer',
    coordinator: 'coordinator',
    role: 'decode',
    slow: { fault: `stall;after=3;ms=${minute}` },
    isAtWork: ({ outcome }) => outcome.completionTokens === 3,
    legs: ['encode', 'encode', 'prefill', 'decode'],
  },
];

let count = 0;

/** Asks and leaves when `isBusy` sees the work; resolves with the id and the time of leaving. */
async function leave(
  url: string,
  isStreamed: boolean,
  isBusy: (requestId: string) => Promise<true | undefined>,
): Promise<{ requestId: string; leftAt: number }> {
  count += 1;
  const requestId = `abort-${count}`;
  const images = await Promise.all([drawImage(2 * count), drawImage(2 * count + 1)]);
  const client = new AbortController();
  const answer = open(url, {
    path,
    requestId,
    signal: client.signal,
    body: chatOf(`Question ${count}`, { images, stream: isStreamed }),
  });
  // A stream that has begun fails while it is read, everything else before.
  const end = answer.then(({ body }) => body.text());
  const isFailed = end.then(
    () => false,
    () => true,
  );
  await until('the work', () => isBusy(requestId));
  const leftAt = Date.now();
  client.abort();
  expect(await isFailed).toBe(true);
  return { requestId, leftAt };
}

/** What a coordinator says about a client that left, and that it is not an error. */
async function expectCancelled(requestId: string, coordinator: string, step: string) {
  expect(await stack.summary(requestId, coordinator)).toMatchObject({
    level: 'info',
    outcome: 'cancelled',
    status: 499,
    code: 'CLIENT_GONE',
    step,
  });
  expect(stack.log(coordinator).filter(({ level }) => level !== 'info')).toEqual([]);
}

const endOf = ({ at, ms }: PodRecord): number => Date.parse(at) + (ms ?? Infinity);

describe('when the client leaves', () => {
  it.each(phases.flatMap(twice))(
    '$when (stream: $isStreamed), every open leg ends and no later one is sent',
    async ({ step, coordinator, role, slow, isAtWork, legs, isStreamed }) => {
      const url = urls[coordinator] ?? '';
      await stack.configure(role, slow);
      const openLegs = legs.filter((leg) => leg === role).length;
      const { requestId, leftAt } = await leave(url, isStreamed, async (id) => {
        const atWork = (await stack.records(id, role)).filter(isAtWork);
        return atWork.length === openLegs || undefined;
      });

      const ended = await until('the end of the legs', async () => {
        const records = await stack.records(requestId, role);
        return records.some(isRunning) ? undefined : records;
      });
      expect(ended.map(({ outcome }) => outcome.status)).toEqual(
        Array.from({ length: openLegs }, () => 'aborted'),
      );
      expect(Math.max(...ended.map(endOf)) - leftAt).toBeLessThan(abortLimitMs);

      await expectCancelled(requestId, coordinator, step);
      const seen = await until('the legs at the gateway', async () => {
        const found = await stack.legs(requestId);
        return found.length >= legs.length ? found : undefined;
      });
      expect(seen.map(({ profile }) => profile)).toEqual(legs);

      await stack.configure(role, { fault: '', prefillOverheadMs: 0 });
      const next = await ask(url, { path, body: chatOf(`After question ${count}`) });
      expect(next.status).toBe(200);
    },
  );

  it.each([false, true])(
    'while render works (stream: %s), its call ends and no leg is sent',
    async (isStreamed) => {
      const before = hangingRender.calls.length;
      const { requestId, leftAt } = await leave(urls['render-hangs'] ?? '', isStreamed, () =>
        Promise.resolve(hangingRender.calls.length > before || undefined),
      );
      const call = await hangingRender.arrived(before);
      await call.ended;
      expect(Date.now() - leftAt).toBeLessThan(abortLimitMs);
      expect(call.aborted).toBe(true);
      await expectCancelled(requestId, 'render-hangs', 'render');
      expect(await stack.legs(requestId)).toEqual([]);
    },
  );
});
