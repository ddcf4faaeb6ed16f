import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { hasNamespace, inNamespace, namespaceHelp } from './namespace.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Downloads come from an address that the address guard can be told to allow, which loopback is not. */
const mediaAddress = '10.77.0.1';
const namespace = hasNamespace ? inNamespace(`ip addr add ${mediaAddress}/32 dev lo`) : [];
/** One more is not run: the type of its image is decided from the bytes, not from what the origin says. */
const minDownloads = 19;

interface Result {
  name: string;
  outcome: 'ok' | 'failed' | 'skipped';
  lines: string[];
}

async function runSuite(wire: string): Promise<Result[]> {
  const directory = await mkdtemp(join(tmpdir(), 'conformance-'));
  const file = join(directory, 'results.json');
  const coordinator = join(root, 'apps/coordinator/dist/main.js');
  const [program = '', ...args] = [
    ...[...namespace, process.execPath, join(root, 'tools/conformance/run.mjs')],
    ...['--wire', wire, '--json', file, ...(hasNamespace ? ['--media-address', mediaAddress] : [])],
    ...['--command', `"${process.execPath}" "${coordinator}" --config {config}`],
  ];
  const suite = spawn(program, args, {
    // The suite is plain JavaScript; what Jest needs of Node would reach the coordinators too. They start a hundred times.
    env: { ...process.env, NODE_OPTIONS: '', NODE_COMPILE_CACHE: join(directory, 'compiled') },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [problems] = await Promise.all([text(suite.stderr), once(suite, 'close')]);
  if (!existsSync(file)) throw new Error(`the suite did not run; ${namespaceHelp}\n${problems}`);
  const { results } = JSON.parse(await readFile(file, 'utf8')) as { results: Result[] };
  await rm(directory, { recursive: true });
  return results;
}

describe('the conformance suite', () => {
  it.each(['snapshot', 'newest'])(
    'is passed on the %s wire',
    async (wire) => {
      const results = await runSuite(wire);
      const of = (outcome: Result['outcome']) => results.filter((one) => one.outcome === outcome);
      expect(of('failed').map(({ name, lines }) => [name, ...lines].join('\n'))).toEqual([]);
      expect(of('ok').length).toBeGreaterThan(950);
      const downloads = of('ok').filter(({ name }) => name.startsWith('media-http/'));
      expect(downloads.length >= minDownloads || !hasNamespace).toBe(true);
    },
    300_000,
  );
});
