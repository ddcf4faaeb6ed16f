import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { createLogger } from '@llm-d/telemetry';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { warnOfAbsent } from './dependencies.ts';

/** Nobody listens here. */
const closed = 'http://127.0.0.1:9';
let there: ScriptedServer;
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'dependencies-'));
  there = await scriptedServer({ text: '{"status":"ok"}' });
});

afterAll(async () => {
  rmSync(directory, { recursive: true });
  await there.close();
});

it.each([
  { absent: 'gateway.address', gateway: closed },
  { absent: 'pipeline.steps[1].params.address', render: closed },
  { absent: 'pipeline.steps[0].params.address', media: closed },
  { absent: undefined },
])('warns of $absent, and of nobody who is there', async ({ absent, gateway, render, media }) => {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    service: 'coordinator',
    level: 2,
    destination: { write: (text) => lines.push(JSON.parse(text) as Record<string, unknown>) },
  });
  const steps = [
    { type: 'replace-media-urls', params: { mode: 'remote', address: media ?? there.url } },
    { type: 'render', params: { address: render ?? there.url } },
    { type: 'decode' },
  ];
  const file = join(directory, 'coordinator.yaml');
  const written = { gateway: { address: gateway ?? there.url }, pipeline: { steps } };
  writeFileSync(file, JSON.stringify(written));
  const { config } = loadConfig({ file, environment: {}, flags: {}, strict: true });
  await warnOfAbsent(config, logger);
  expect(lines.map(({ msg }) => msg)).toEqual(
    absent === undefined ? [] : [`${absent}: nobody answers there`],
  );
});
