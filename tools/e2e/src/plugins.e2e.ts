import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, until } from '@llm-d/soak';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { ask } from './ask.ts';
import {
  type CoordinatorProcess,
  coordinatorScript,
  runCoordinator,
} from './coordinator-process.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const server = { listen_addr: '127.0.0.1:0', metrics_port: 0 };

const running: CoordinatorProcess[] = [];
let directory: string;
let worker: ScriptedServer;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'e2e-plugins-'));
  worker = await scriptedServer({ json: { id: 'served' } });
});

afterEach(async () => {
  for (const coordinator of running.splice(0)) {
    coordinator.signal('SIGKILL');
    await coordinator.exited;
  }
});

afterAll(async () => {
  await worker.close();
  rmSync(directory, { recursive: true });
});

function start(pipeline: object): CoordinatorProcess {
  const coordinator = runCoordinator({ server, gateway: { address: worker.url }, pipeline });
  running.push(coordinator);
  return coordinator;
}

/** Asks a coordinator with these steps, and a decode step behind them, about a prompt. */
async function complete(pipeline: { plugins: string[]; steps: object[] }, prompt: string) {
  const { output } = start({ ...pipeline, steps: [...pipeline.steps, { type: 'decode' }] });
  const url = await until('the address', () => {
    const address = /"address":"(http:[^"]+)","msg":"listening"/.exec(output())?.[1];
    if (address === undefined && output().includes('coordinator: ')) throw new Error(output());
    return address;
  });
  const { status, body } = await ask(url, { path: '/v1/chat/completions', body: chatOf(prompt) });
  return { status, body: JSON.parse(body.toString('utf8')) as unknown };
}

describe('a step in a package of its own', () => {
  const pipeline = {
    plugins: ['@acme/guardrail-step'],
    steps: [{ type: 'guardrail', params: { forbidden: ['open sesame'] } }],
  };

  it('refuses what it is there to refuse', async () => {
    const calls = worker.calls.length;
    expect(await complete(pipeline, 'Please open sesame!')).toMatchObject({
      status: 400,
      body: {
        error: {
          code: 'PROMPT_REFUSED',
          type: 'invalid_request_error',
          step: 'guardrail',
          param: 'messages[0].content[0]',
        },
      },
    });
    expect(worker.calls.length).toBe(calls);
  });

  it('lets the rest pass', async () => {
    expect(await complete(pipeline, 'Good morning')).toEqual({
      status: 200,
      body: { id: 'served' },
    });
  });
});

describe('a step with its own copy of @llm-d/pipeline and zod', () => {
  it('has its errors told to the client, and its parameters checked', async () => {
    const modules = join(directory, 'node_modules');
    for (const name of ['pipeline', 'gateway', 'json-document']) {
      for (const part of ['package.json', 'dist']) {
        cpSync(join(root, 'libs', name, part), join(modules, '@llm-d', name, part), {
          recursive: true,
        });
      }
    }
    for (const name of ['zod', 'undici']) {
      cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true });
    }
    const file = join(directory, 'own-copy.mjs');
    writeFileSync(
      file,
      `import { BadRequestError, defineStep } from '@llm-d/pipeline';
      import { z } from 'zod';
      for (const name of ['@llm-d/pipeline', 'zod']) {
        const from = import.meta.resolve(name);
        if (!from.startsWith(new URL('node_modules/', import.meta.url).href)) throw new Error(from);
      }
      const params = z.strictObject({ reason: z.string() });
      const create = ({ reason }) => async () => {
        throw new BadRequestError(reason, { code: 'OWN', param: 'messages' });
      };
      export default defineStep({ type: 'own', params, create });`,
    );
    const steps = [{ type: 'own', params: { reason: 'not today', odd: 1 } }];
    expect(await complete({ plugins: [file], steps }, 'Good morning')).toMatchObject({
      status: 400,
      body: { error: { code: 'OWN', step: 'own', param: 'messages' } },
    });
    expect(running[0]?.output()).toContain('pipeline.steps: own: odd: unknown key');

    const refused = start({
      plugins: [file],
      steps: [{ type: 'own', params: { reason: 5 } }, { type: 'decode' }],
    });
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toMatch(/^coordinator: own: reason: .*got 5\n$/);
  });
});

describe('a broken plugin', () => {
  it('stops the start with its name and the reason', async () => {
    const file = join(directory, 'broken.mjs');
    writeFileSync(file, `throw new Error('no licence');`);
    const refused = start({ plugins: ['@acme/none', file], steps: [{ type: 'decode' }] });
    expect(await refused.exited).toBe(1);
    expect(refused.output().split('\n')).toEqual([
      expect.stringMatching(/^coordinator: pipeline\.plugins: "@acme\/none": no such package, /),
      `coordinator: pipeline.plugins: "${file}": cannot be loaded: no licence`,
      '',
    ]);
  });
});

describe('docs/adding-a-step.md', () => {
  it('has blocks for a step in a file that work as they are', async () => {
    const page = readFileSync(join(root, 'docs/adding-a-step.md'), 'utf8');
    const section = /\n## A step in a file of your own\n([^]*?)\n## /.exec(page)?.[1] ?? '';
    const blocks = [...section.matchAll(/\n```sh\n([^]*?)\n```/g)].map(([, block = '']) => block);
    expect(blocks.length).toBeGreaterThan(1);
    const folder = join(directory, 'pasted');
    mkdirSync(folder);
    // Outside the repository, and without npm in between.
    const program = `"${process.execPath}" "${coordinatorScript}"`;
    const script = blocks.join('\n').replaceAll('npm run -s coordinator --', program);
    const env = { PATH: process.env['PATH'] };
    const { stdout } = await promisify(execFile)('sh', ['-e', '-c', script], { cwd: folder, env });
    expect(stdout).toMatch(/^my-steps\/coordinator\.yaml: valid\n/);
    expect(stdout).toContain('    - type: token-budget # file\n');
  });
});
