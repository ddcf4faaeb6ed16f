import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

/** A definition with a schema that is none of our zod's: plugins are known by their shape. */
const definition = (type: string) =>
  `{ type: '${type}', params: { safeParse: (data) => ({ success: true, data }) }, create: () => async () => 'continue' }`;

const files: Record<string, string> = {
  'steps/one.mjs': `export const steps = [${definition('one')}];`,
  'steps/default.mjs': `export default ${definition('two')};`,
  'steps/defaults.mjs': `export default [${definition('three')}, ${definition('four')}];`,
  'steps/both.mjs': `export const steps = [${definition('five')}]; export default 5;`,
  'steps/imports.mjs': `import { steps } from './one.mjs'; export { steps };`,
  // None of its imports is installed here.
  'steps/lent.mjs': `import { z } from 'zod';
    import { BadRequestError, defineStep } from '@llm-d/pipeline';
    const params = z.strictObject({ max: z.int() });
    const type = ['nine', params.safeParse({ max: 5 }).success, params.safeParse({}).success, BadRequestError.name];
    export default defineStep({ type: type.join(' '), params, create: () => async () => 'continue' });`,
  'steps/throws.mjs': `throw new Error('no licence');`,
  'steps/throws-text.mjs': `throw 'no licence';`,
  'steps/broken.mjs': `export const steps = [`,
  'steps/needs.mjs': `import '@acme/not-installed';`,
  'steps/nothing.mjs': `export const other = 1;`,
  'steps/empty.mjs': `export const steps = [];`,
  'steps/number.mjs': `export const steps = [${definition('six')}, 5];`,
  'steps/no-type.mjs': `export default { ...${definition('')} };`,
  'steps/no-schema.mjs': `export default { ...${definition('a')}, params: {} };`,
  'steps/no-create.mjs': `export default { ...${definition('a')}, create: 1 };`,
  'steps/taken.mjs': `export default ${definition('decode')};`,
  'steps/taken-too.mjs': `export default ${definition('one')};`,
  // What only `import` may see is invisible to `require.resolve`.
  'node_modules/@acme/steps/package.json': JSON.stringify({
    name: '@acme/steps',
    exports: { '.': { import: './main.js' }, './more': './more.js' },
    type: 'module',
  }),
  'node_modules/@acme/steps/main.js': `export const steps = [${definition('seven')}];`,
  'node_modules/@acme/steps/more.js': `export const steps = [${definition('eight')}];`,
};

/** What loading some plugins together comes to: types in order, or problems. */
type Result = { types: string[] } | { problems: string[] };

// Jest forbids hooks of the module loader, which belong to what is tested: each list of names is loaded by a process.
const program = `
  import { loadPlugins } from '@llm-d/steps';
  const [configFile, lists] = JSON.parse(process.argv[1]);
  const results = [];
  for (const names of lists) {
    results.push(await loadPlugins(names, configFile).then(
      (definitions) => ({ types: definitions.map(({ type }) => type) }),
      ({ problems }) => ({ problems: problems.map((text) => text.replace('pipeline.plugins: ', '')) }),
    ));
  }
  console.log(JSON.stringify(results));
`;

const found: { names: string[]; types: string[] }[] = [
  { names: [], types: [] },
  { names: ['./steps/one.mjs'], types: ['one'] },
  { names: ['./steps/default.mjs'], types: ['two'] },
  { names: ['./steps/defaults.mjs'], types: ['three', 'four'] },
  { names: ['./steps/both.mjs'], types: ['five'] },
  { names: ['./steps/imports.mjs'], types: ['one'] },
  { names: ['./steps/lent.mjs'], types: ['nine true false BadRequestError'] },
  { names: ['@acme/steps'], types: ['seven'] },
  { names: ['@acme/steps/more'], types: ['eight'] },
  { names: ['@acme/steps', '{folder}/steps/default.mjs'], types: ['seven', 'two'] },
];

const unusable = 'expected step definitions as the export "steps" or as the default export';

const refused: { names: string[]; problems: (string | RegExp)[] }[] = [
  {
    names: ['./steps/none.mjs'],
    problems: [/^"\.\/steps\/none\.mjs": no such file: \/.*\/steps\/none\.mjs$/],
  },
  {
    names: ['@acme/none'],
    problems: [/^"@acme\/none": no such package, neither from \/.* nor from the coordinator$/],
  },
  { names: ['https://example.com/x.mjs'], problems: [/": no such package, /] },
  // Installed here, but not below the folder of the configuration.
  { names: ['zod'], problems: ['"zod": the exported step: type: expected a name'] },
  { names: ['./steps/throws.mjs'], problems: [/": cannot be loaded: no licence$/] },
  { names: ['./steps/throws-text.mjs'], problems: [/": cannot be loaded: no licence$/] },
  { names: ['./steps/broken.mjs'], problems: [/": cannot be loaded: Unexpected end of input$/] },
  {
    names: ['./steps/needs.mjs'],
    problems: [/": cannot be loaded: Cannot find package '@acme\/not-installed'/],
  },
  {
    names: ['@acme/steps/hidden'],
    problems: [/": cannot be loaded: Package subpath '\.\/hidden' is not defined/],
  },
  { names: ['./steps'], problems: [/": cannot be loaded: Directory import /] },
  { names: ['./steps/nothing.mjs'], problems: [`"./steps/nothing.mjs": ${unusable}`] },
  { names: ['./steps/empty.mjs'], problems: [`"./steps/empty.mjs": ${unusable}`] },
  {
    names: ['./steps/number.mjs'],
    problems: [/": step 1: expected a step definition, see defineStep of @llm-d\/pipeline$/],
  },
  { names: ['./steps/no-type.mjs'], problems: [/": the exported step: type: expected a name$/] },
  {
    names: ['./steps/no-schema.mjs'],
    problems: [/": the exported step: a: params: expected a zod schema$/],
  },
  {
    names: ['./steps/no-create.mjs'],
    problems: [/": the exported step: a: create: expected a function$/],
  },
  {
    names: ['./steps/taken.mjs'],
    problems: [/": the step type "decode" is taken by the coordinator$/],
  },
  {
    names: ['./steps/one.mjs', './steps/taken-too.mjs'],
    problems: [
      '"./steps/taken-too.mjs": the step type "one" is taken by the plugin "./steps/one.mjs"',
    ],
  },
  {
    names: ['@acme/steps', '@acme/steps'],
    problems: ['"@acme/steps": the step type "seven" is taken by the plugin "@acme/steps"'],
  },
  {
    names: ['@acme/none', './steps/one.mjs', './steps/throws.mjs'],
    problems: [/^"@acme\/none": /, /^"\.\/steps\/throws\.mjs": /],
  },
];

/** A process starts slowly where many tests run at once. */
const startLimitMs = 60_000;

let folder: string;
let results: Map<string, Result>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plugins-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const all = [...found, ...refused].map(({ names }) => names);
  const lists = all.map((names) => names.map((name) => name.replace('{folder}', folder)));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...['--conditions=@llm-d/source', '--input-type=module', '--eval', program],
      JSON.stringify([join(folder, 'coordinator.yaml'), lists]),
    ],
    { cwd: import.meta.dirname, env: {} },
  );
  const parsed = JSON.parse(stdout) as Result[];
  results = new Map(all.map((names, index) => [names.join(), parsed[index] ?? { problems: [] }]));
}, startLimitMs);

afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe('loadPlugins', () => {
  it.each(found)('finds the steps of $names', ({ names, types }) => {
    expect(results.get(names.join())).toEqual({ types });
  });

  it.each(refused)('refuses $names, each with its name and the reason', ({ names, problems }) => {
    expect(results.get(names.join())).toEqual({
      problems: problems.map((problem) =>
        typeof problem === 'string' ? problem : expect.stringMatching(problem),
      ),
    });
  });
});
