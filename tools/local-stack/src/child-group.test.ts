import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ChildGroup, type ChildSpec } from './child-group.ts';
import { freePorts } from './free-ports.ts';

const server = `
  import { createServer } from 'node:http';
  console.log('starting');
  createServer((request, response) => {
    response.end('ok');
    if (request.url === '/die') { console.log('last words'); process.exit(3); }
  }).listen(Number(process.argv[2]), '127.0.0.1');
  if (process.argv[3] === 'stubborn') process.on('SIGTERM', () => console.log('no'));
`;

let directory: string;
let group: ChildGroup;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'child-group-'));
  await writeFile(join(directory, 'server.mjs'), server);
  group = new ChildGroup(join(directory, 'logs'));
});

afterEach(async () => {
  await group.stopAll();
  await rm(directory, { recursive: true });
});

async function child(name: string, ...args: string[]): Promise<ChildSpec> {
  const [port = 0] = await freePorts(1);
  const script = join(directory, 'server.mjs');
  return { name, script, args: [`${port}`, ...args], readyUrl: `http://127.0.0.1:${port}/` };
}

describe('ChildGroup', () => {
  it('starts children, keeps their output, and ends them', async () => {
    const spec = await child('one');
    await group.start([spec, await child('two')]);
    expect(await readFile(group.logFile('one'), 'utf8')).toContain('starting');
    await group.stopAll();
    await expect(fetch(spec.readyUrl)).rejects.toThrow();
  });

  it('tells which child failed at its start, with its last lines', async () => {
    const broken = { ...(await child('broken')), script: join(directory, 'missing.mjs') };
    await expect(group.start([await child('one'), broken])).rejects.toThrow(
      /broken exited with 1; its last lines:[^]*Cannot find module/,
    );
  });

  it('tells when a child ends later', async () => {
    const spec = await child('one');
    await group.start([spec]);
    await fetch(`${spec.readyUrl}die`);
    await expect(group.failed).rejects.toThrow(/one exited with 3; its last lines:[^]*last words/);
  });

  it('does not count a child that was stopped as failed', async () => {
    await group.start([await child('one'), await child('two')]);
    await group.stop('one');
    const soon = new Promise((resolve) => setTimeout(resolve, 50, 'nothing'));
    expect(await Promise.race([group.failed, soon])).toBe('nothing');
  });

  it('kills a child that does not end when asked', async () => {
    const spec = await child('one', 'stubborn');
    await group.start([spec]);
    await group.stop('one');
    await expect(fetch(spec.readyUrl)).rejects.toThrow();
  }, 20_000);
});
