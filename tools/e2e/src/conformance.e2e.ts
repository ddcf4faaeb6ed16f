import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../../../', import.meta.url));

interface Result {
  name: string;
  outcome: 'ok' | 'failed' | 'skipped';
  lines: string[];
}

async function runSuite(wire: string): Promise<Result[]> {
  const directory = await mkdtemp(join(tmpdir(), 'conformance-'));
  const file = join(directory, 'results.json');
  const coordinator = join(root, 'apps/coordinator/dist/main.js');
  const suite = spawn(
    process.execPath,
    [
      join(root, 'tools/conformance/run.mjs'),
      ...['--wire', wire, '--json', file],
      ...['--command', `"${process.execPath}" "${coordinator}" --config {config}`],
    ],
    // The suite is plain JavaScript; what Jest needs of Node would reach the coordinators too.
    { env: { ...process.env, NODE_OPTIONS: '' }, stdio: 'ignore' },
  );
  await once(suite, 'exit');
  const { results } = JSON.parse(await readFile(file, 'utf8')) as { results: Result[] };
  await rm(directory, { recursive: true });
  return results;
}

describe('the conformance suite', () => {
  it.each(['snapshot', 'newest'])(
    'is passed on the %s wire',
    async (wire) => {
      const results = await runSuite(wire);
      const failed = results.filter(({ outcome }) => outcome === 'failed');
      expect(failed.map(({ name, lines }) => [name, ...lines].join('\n'))).toEqual([]);
      expect(results.filter(({ outcome }) => outcome === 'ok').length).toBeGreaterThan(950);
    },
    300_000,
  );
});
