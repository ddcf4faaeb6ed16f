import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** What became of the demo's queued request. */
export interface QueueDemo {
  readonly id: string;
  /** Of the submission: 202. */
  readonly submitted: number;
  /** How often it was asked for until it was there. */
  readonly asked: number;
  /** Of its result: 200. */
  readonly fetched: number;
  readonly text: string;
  readonly ms: number;
}

const pauseMs = 100;
const limitMs = 30_000;

/** Queues a question, asks for its result until it is there, and fetches it. */
export async function runQueueDemo(url: string): Promise<QueueDemo> {
  const id = `demo-${randomUUID()}`;
  const start = performance.now();
  const passed = (): number => Math.round(performance.now() - start);
  const submission = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-llm-d-async-mode': 'enqueue',
      'x-request-id': id,
    },
    body: JSON.stringify({
      model: 'sim/model',
      max_tokens: 24,
      messages: [{ role: 'user', content: 'Take your time: which way is the sea?' }],
    }),
  });
  const { status: submitted } = submission;
  await submission.body?.cancel();
  for (let asked = 1; ; asked++) {
    const response = await fetch(`${url}/v1/requests/${id}`);
    const body: unknown = await response.json();
    if (response.status !== 202 || passed() > limitMs) {
      return { id, submitted, asked, fetched: response.status, text: textOf(body), ms: passed() };
    }
    await sleep(pauseMs);
  }
}

function textOf(body: unknown): string {
  const { choices, error } = body as {
    choices?: { message?: { content?: string } }[];
    error?: { message?: string };
  };
  return choices?.[0]?.message?.content ?? error?.message ?? '';
}
