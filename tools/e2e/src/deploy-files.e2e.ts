import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
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
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 30_000 });
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

describe('the render-shim takes', () => {
  it.each(['everything.yaml', 'minimal.yaml'])('chart, %s', async (name) => {
    const text = rendered(name, 'render-shim');
    expect(text).toContain('listen: :8082');
    const file = join(folder, 'render-shim.yaml');
    writeFileSync(file, text ?? '');
    const script = join(root, 'apps/render-shim/dist/main.js');
    const child = spawn(process.execPath, [script, '--config', file, '--listen', '127.0.0.1:0']);
    let output = '';
    for await (const piece of child.stdout) {
      output += String(piece);
      if (output.includes('"listening"')) break;
    }
    expect(output).toContain('"listening"');
    // It would drain.
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
});
