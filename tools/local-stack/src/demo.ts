import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { readEvents } from './read-events.ts';
import { type Stack } from './stack.ts';
import { type Span } from './waterfall.ts';

/** What the demo saw; with `--json` the last line of `npm start`. */
export interface DemoResult {
  /** The answer came whole, every leg was seen, and every hand-off was fetched. */
  readonly ok: boolean;
  /** Legs by phase, as the gateway and the coordinator counted them. */
  readonly legs: Readonly<Record<'render' | 'encode' | 'prefill' | 'decode', number>>;
  /** Events with text. */
  readonly chunks: number;
  /** KV hand-offs that a decode worker fetched from a prefill worker. */
  readonly kvPulls: number;
  /** Embeddings that a prefill worker fetched from an encode worker. */
  readonly ecPulls: number;
  readonly ms: number;
}

/** The demo's outcome with what is shown of it. */
export interface Demo {
  readonly result: DemoResult;
  readonly spans: readonly Span[];
}

/** Sends a question with a photo, hands each piece of the answer to `onText`, and looks at what every process recorded. */
export async function runDemo(
  stack: Stack,
  options: { prompt: string; imageUrl: string },
  onText: (text: string) => void,
): Promise<Demo> {
  const id = `demo-${randomUUID()}`;
  const start = performance.now();
  const response = await fetch(`${stack.publicUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': id },
    body: JSON.stringify({
      model: 'sim/model',
      stream: true,
      max_tokens: 200,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: options.prompt },
            { type: 'image_url', image_url: { url: options.imageUrl } },
          ],
        },
      ],
    }),
  });
  if (!response.ok || !response.body) {
    throw new Error(`the stack answered HTTP ${response.status}: ${await response.text()}`);
  }
  let [chunks, isWhole] = [0, false];
  for await (const data of readEvents(response.body)) {
    if (data === '[DONE]') isWhole = true;
    else {
      const text = textOf(data);
      if (text !== '') chunks++;
      onText(text);
    }
  }
  const ms = Math.round(performance.now() - start);
  const spans = await spansOf(stack, id);
  const legs = { render: 0, encode: 0, prefill: 0, decode: 0 };
  for (const { kind, name, status } of spans) {
    if (kind === 'leg' && status === 200 && Object.hasOwn(legs, name))
      legs[name as keyof typeof legs]++;
  }
  const { kvPulls, ecPulls } = await pullsOf(stack, id);
  const isEveryLegSeen = Object.values(legs).every((count) => count > 0);
  const ok = isWhole && chunks > 0 && isEveryLegSeen && kvPulls > 0 && ecPulls > 0;
  return { result: { ok, legs, chunks, kvPulls, ecPulls, ms }, spans };
}

interface ChatEvent {
  choices?: { delta?: { content?: string } }[];
  error?: { message?: string };
}

function textOf(data: string): string {
  const event = JSON.parse(data) as ChatEvent;
  if (event.error) throw new Error(`the answer broke off: ${event.error.message ?? data}`);
  return event.choices?.[0]?.delta?.content ?? '';
}

/** The coordinator writes its summary after the last byte, so it may come a moment later than the answer. */
async function spansOf(stack: Stack, id: string): Promise<Span[]> {
  for (let attempt = 0; attempt < 40; attempt++) {
    const response = await fetch(`${stack.coordinatorDebugUrl}/debug/requests/${id}`);
    if (response.ok) return ((await response.json()) as DebugRecord).timeline.map(toSpan);
    await response.body?.cancel();
    await sleep(50);
  }
  throw new Error('the coordinator has no record of the request');
}

interface DebugRecord {
  timeline: (Omit<Span, 'startMs' | 'endMs'> & { start_ms: number; end_ms: number })[];
}

const toSpan = ({
  start_ms: startMs,
  end_ms: endMs,
  ...rest
}: DebugRecord['timeline'][0]): Span => ({
  ...rest,
  startMs,
  endMs,
});

interface Recorded {
  requests: { kv?: { source: string }; ec?: { source: string }[] }[];
}

async function pullsOf(stack: Stack, id: string): Promise<{ kvPulls: number; ecPulls: number }> {
  let [kvPulls, ecPulls] = [0, 0];
  for (const { url } of stack.pods) {
    const response = await fetch(`${url}/admin/requests?request_id=${id}`);
    for (const { kv, ec = [] } of ((await response.json()) as Recorded).requests) {
      if (kv?.source === 'external') kvPulls++;
      ecPulls += ec.filter(({ source }) => source === 'external').length;
    }
  }
  return { kvPulls, ecPulls };
}
