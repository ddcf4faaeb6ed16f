import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { loadOptions } from './load-options.ts';
import { askChat, type Experience, openLoop, quantile } from './open-loop.ts';
import { printTable } from './print-table.ts';
import { promptMix } from './prompt-mix.ts';

const startMs = 60_000;
/** More than one request in a hundred that fails makes the exit code 1. */
const mostFailing = 0.01;

/** Resolves as soon as somebody answers there, whatever it is. */
async function untilAnswered(url: string): Promise<void> {
  const end = performance.now() + startMs;
  for (;;) {
    try {
      await (await request(`${url}/v1/models`)).body.dump();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
      await sleep(500);
    }
  }
}

/** `bench load`: sends a mix of streamed requests at a constant rate, and prints how they were answered. */
export async function benchLoad(args: string[]): Promise<void> {
  const options = loadOptions(args);
  const { url, rate, seconds } = options;
  await untilAnswered(url);
  const next = await promptMix(options);
  const agent = new Agent({ pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  const experiences = await openLoop({ rate, seconds }, (_, dueAt) =>
    askChat(agent, { origin: url, dueAt, ...next() }),
  );
  await agent.close();
  const isGood = ({ result }: Experience): boolean => result === '200' || result === 'left';
  const served = experiences.filter(isGood);
  const times: [string, number[]][] = [
    ['to the first chunk', served.flatMap(({ firstMs }) => firstMs ?? [])],
    ['between chunks', served.flatMap(({ gapsMs }) => gapsMs)],
    ['to the end', served.map(({ wholeMs }) => wholeMs)],
  ];
  printTable(
    ['ms', 'p50', 'p95', 'p99', 'max'],
    times.map(([name, figures]) => [
      name,
      ...[0.5, 0.95, 0.99, 1].map((share) => quantile(figures, share).toFixed(1)),
    ]),
  );
  const results = Object.groupBy(experiences, ({ result }) => result);
  const counts = Object.entries(results).map(([result, list]) => `${list?.length} ${result}`);
  console.log(`${experiences.length} requests, ${rate} a second: ${counts.join(', ')}`);
  if (served.length < experiences.length * (1 - mostFailing)) process.exitCode = 1;
}
