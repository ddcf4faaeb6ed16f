import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { scaleLanes } from './scale-lanes.ts';
import { scaleReplicas } from './scale-replicas.ts';
import { scaleStreams, serveHeldStreams } from './scale-streams.ts';

const parts = ['replicas', 'lanes', 'streams'];

/**
 * `bench scale`: what grows with replicas, lanes and streams, and what must not.
 *
 * `--only PART` runs one of replicas, lanes and streams. `--rate`, `--seconds` and `--rounds` are of the replicas, `--count`
 * the admissions of each row of the lanes, `--streams` the most that are held. A stream is one open file here and two in a
 * coordinator; Node raises the soft limit to the hard one.
 */
export async function benchScale(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      stub: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rate: { type: 'string', default: '100' },
      seconds: { type: 'string', default: '10' },
      rounds: { type: 'string', default: '3' },
      count: { type: 'string', default: '10000' },
      streams: { type: 'string', default: '10000' },
    },
  });
  if (values.stub) return serveHeldStreams();
  if (values.only !== '' && !parts.includes(values.only)) {
    throw new Error(`--only: expected one of ${parts.join(', ')}, got ${values.only}`);
  }
  const isAsked = (part: string): boolean => values.only === '' || values.only === part;
  const directory = await mkdtemp(join(tmpdir(), 'bench-scale-'));
  try {
    if (isAsked('replicas')) {
      await scaleReplicas({
        ...{ rate: Number(values.rate), seconds: Number(values.seconds) },
        ...{ rounds: Number(values.rounds), directory },
      });
    }
    if (isAsked('lanes')) await scaleLanes(Number(values.count));
    if (isAsked('streams')) await scaleStreams(Number(values.streams), directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}
