import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '@llm-d/soak';
import { parseAllDocuments } from 'yaml';
import { ask } from './ask.ts';
import { coordinatorScript } from './coordinator-process.ts';

// The configuration files of deploy/, and those that the charts render, taken by the apps as they are built.
const root = fileURLToPath(new URL('../../../', import.meta.url));
const goldens = join(root, 'tools/deploy-check/src/testdata/charts');

interface ConfigMap {
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
}

/** The file of an app in a golden rendering. */
function rendered(valueSet: string, app: string): string | undefined {
  const text = readFileSync(join(goldens, valueSet), 'utf8');
  const objects = parseAllDocuments(text).map((document) => document.toJS() as ConfigMap);
  return objects.find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === `llm-${app}`,
  )?.data?.['config.yaml'];
}

const files: [string, string][] = [
  ['deploy/compose', readFileSync(join(root, 'deploy/compose/coordinator.yaml'), 'utf8')],
  ...readdirSync(goldens).map((name): [string, string] => [
    `chart, ${name}`,
    rendered(name, 'coordinator') ?? '',
  ]),
];

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'e2e-files-'));
});

afterAll(() => rmSync(folder, { recursive: true }));

function validate(text: string) {
  const file = join(folder, 'coordinator.yaml');
  writeFileSync(file, text);
  const args = [coordinatorScript, 'validate', file, '--strict-config'];
  // The chart has the coordinator read it from a Secret.
  const redisUrl = { COORDINATOR_PIPELINE_STEPS_0_PARAMS_REDIS_URL: 'redis://redis:6379' };
  const env = { ...process.env, ...(text.includes('type: async-broker') ? redisUrl : {}) };
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 30_000, env });
}

it('`coordinator validate` refuses a file with a misspelt key', () => {
  const { status, stderr } = validate('gateway: { adress: "http://gateway" }');
  expect(status).toBe(1);
  expect(stderr).toContain('adress');
});

/** Many value sets render the same file. */
const differing = files.filter(
  ([, text], index) => files.findIndex(([, other]) => other === text) === index,
);

describe('the coordinator takes', () => {
  it.each(differing)('%s', (_name, text) => {
    const { status, stderr } = validate(text);
    expect({ status, stderr }).toMatchObject({ status: 0 });
  });
});

/** Apps whose file the chart renders, with what it hands in beside it, and how far they come without anybody else. */
const apps: { app: string; set: string; env?: Record<string, string> }[] = [
  { app: 'render-shim', set: 'everything.yaml' },
  { app: 'media-fetcher', set: 'production.yaml', env: { MEDIA_TOKENS: 'token' } },
  {
    app: 'async-broker',
    set: 'production.yaml',
    env: { ASYNC_BROKER_REDIS_URL: 'redis://127.0.0.1:1' },
  },
];

/** Starts a built app with a file; resolves with its log up to the line that says that it listens. */
async function start(app: string, text: string, env: Record<string, string> = {}) {
  const file = join(folder, `${app}.yaml`);
  writeFileSync(file, text);
  const script = join(root, 'apps', app, 'dist/main.js');
  const child = spawn(process.execPath, [script, '--config', file, '--listen', '127.0.0.1:0'], {
    env: { ...process.env, FORCE_COLOR: undefined, ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => (output += piece.toString()));
  }
  const gone = once(child, 'exit');
  const address = await until('the address', () => {
    if (child.exitCode !== null) throw new Error(output);
    return /"address":"(http[^"]+)","msg":"listening"/.exec(output)?.[1];
  });
  // It would drain.
  const stop = async () => {
    child.kill('SIGKILL');
    await gone;
  };
  return { address, stop };
}

describe('the chart renders a file that is taken by', () => {
  it.each(apps)('$app', async ({ app, set, env }) => {
    const text = rendered(set, app) ?? '';
    expect(text).toContain('listen: :80');
    const { stop } = await start(app, text, env);
    await stop();
    await expect(start(app, `${text}\nno_such_key: 1\n`, env)).rejects.toThrow(/no_such_key/);
  });
});

it('every metric of async-broker in a dashboard or an alert is one that it exports', async () => {
  const text = rendered('production.yaml', 'async-broker') ?? '';
  const { address, stop } = await start('async-broker', text, apps[2]?.env);
  const page = (await ask(address, { method: 'GET', path: '/metrics' })).body.toString();
  await stop();
  const exported = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  const files = ['deploy/prometheus/rules.yaml', 'deploy/dashboards/async.json'];
  const shown = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/llm_d_async_\w+/g)].map(([name]) => name),
  );
  expect(shown.length).toBeGreaterThan(5);
  // Those of coordinators are held against docs/async-requests.md.
  const ofCoordinators = [
    ...readFileSync(join(root, 'docs/async-requests.md'), 'utf8').matchAll(
      /^\| `(\w+)` +\| (counter|gauge|histogram)/gm,
    ),
  ].flatMap(([, name = '', type]) =>
    ['', ...(type === 'histogram' ? ['_bucket', '_sum', '_count'] : [])].map(
      (end) => `llm_d_async_broker_${name}${end}`,
    ),
  );
  for (const name of shown) expect([...exported, ...ofCoordinators]).toContain(name);
});
