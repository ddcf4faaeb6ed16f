import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { z } from 'zod';
import { pathOf } from './deploy-files.ts';
import { type ProgramName, programPath } from './programs.ts';

const run = promisify(execFile);

/** Every chart that is installed and needs nothing but its neighbours, the umbrella last. */
export const chartNames = readdirSync(pathOf('deploy/charts'))
  .filter((name) => name !== 'common' && !name.startsWith('stack'))
  .concat('stack');

/** Value sets of the umbrella, each with a golden file. */
export const valueSets = readdirSync(pathOf('deploy/charts/stack/ci')).map((file) =>
  file.replace('.yaml', ''),
);

/** What the cluster of the renderings has beside Kubernetes. */
const apis = [
  'gateway.networking.k8s.io/v1/HTTPRoute',
  'inference.networking.k8s.io/v1/InferencePool',
  'keda.sh/v1alpha1/ScaledObject',
  'monitoring.coreos.com/v1/PrometheusRule',
  'monitoring.coreos.com/v1/ServiceMonitor',
];

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string() }),
  data: z.record(z.string(), z.string()).optional(),
  spec: z.looseObject({}).optional(),
});

/** A rendered object of Kubernetes. */
export type RenderedObject = z.output<typeof objectSchema>;

/** Charts with their dependencies built, in a folder of their own. */
export interface BuiltCharts {
  /** Renders a chart as release `llm`. @throws Error with Helm's words when it refuses */
  render(chart: string, options?: RenderOptions): Promise<RenderedObject[]>;
  /** What Helm says after the install of the umbrella. */
  notes(options?: RenderOptions): Promise<string>;
  /** `helm lint --strict` of a chart. @throws Error with what it finds */
  lint(chart: string, options?: RenderOptions): Promise<void>;
  /** Renders stack-valkey with a chart in the place of Valkey's own, which shows what values it gets as ConfigMap/valkey. */
  renderWithValkey(options?: RenderOptions): Promise<RenderedObject[]>;
  /** Chart.lock of a chart. */
  lockText(chart: string): string;
  remove(): void;
}

/** What a rendering differs in. */
export interface RenderOptions {
  /** A file of stack/ci. */
  readonly valueSet?: string;
  /** As JSON, laid over that. */
  readonly values?: object;
  /** APIs of the cluster; all that the charts can use when absent. */
  readonly apis?: readonly string[];
}

/** Builds the charts with one major version of Helm, as their Chart.lock says unless that is to be made anew. */
export async function buildCharts(program: ProgramName, isLocked = true): Promise<BuiltCharts> {
  const helm = await programPath(program);
  const folder = mkdtempSync(join(tmpdir(), `${program}-`));
  cpSync(pathOf('deploy/charts'), folder, {
    recursive: true,
    filter: (path) =>
      !/\/charts\/[^/]+\/charts/.test(path) && (isLocked || !path.endsWith('/Chart.lock')),
  });
  const env = {
    ...process.env,
    HELM_CACHE_HOME: join(folder, '.cache'),
    HELM_CONFIG_HOME: join(folder, '.config'),
    HELM_DATA_HOME: join(folder, '.data'),
  };
  const call = (...args: string[]) =>
    run(helm, args, { cwd: folder, env, timeout: 60_000, maxBuffer: 64 * 1024 * 1024 });
  // Leaves first: their copies in the umbrella hold the library.
  for (const chart of chartNames) await call('dependency', 'build', '--skip-refresh', chart);
  const flags = ({ valueSet, values, apis: own = apis }: RenderOptions): string[] => [
    ...(valueSet === undefined ? [] : ['--values', `stack/ci/${valueSet}.yaml`]),
    ...Object.entries(values ?? {}).flatMap(([key, value]) => [
      '--set-json',
      `${key}=${JSON.stringify(value)}`,
    ]),
    ...['--kube-version', '1.33'],
    ...own.flatMap((api) => ['--api-versions', api]),
  ];
  const render = async (chart: string, options: RenderOptions): Promise<RenderedObject[]> => {
    const { stdout } = await call('template', 'llm', chart, '-n', 'llm-d', ...flags(options));
    return parseAllDocuments(stdout, { merge: false })
      .map((document) => {
        const [error] = document.errors;
        if (error) throw error;
        return document.toJS() as unknown;
      })
      .filter((object) => object !== null)
      .map((object) => objectSchema.parse(object))
      .toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  };
  return {
    render: (chart, options = {}) => render(chart, options),
    async notes(options = {}) {
      // `helm template` keeps notes to itself, so they are made part of an object.
      const file = join(folder, 'stack/templates/notes.yaml');
      const text = readFileSync(join(folder, 'stack/templates/NOTES.txt'), 'utf8');
      writeFileSync(
        file,
        `{{- define "notes" -}}\n${text}\n{{- end -}}\n` +
          '{ apiVersion: v1, kind: ConfigMap, metadata: { name: notes }, data: { notes: {{ include "notes" . | quote }} } }\n',
      );
      try {
        const objects = await render('stack', options);
        return (
          objects.find((object) => nameOf(object) === 'ConfigMap/notes')?.data?.['notes'] ?? ''
        );
      } finally {
        rmSync(file);
      }
    },
    async lint(chart, options = {}) {
      // Lint takes no --api-versions.
      const [values] = [flags({ ...options, apis: [] })];
      await call('lint', '--strict', chart, ...values);
    },
    lockText: (chart) => readFileSync(join(folder, chart, 'Chart.lock'), 'utf8'),
    renderWithValkey(options = {}) {
      const own = join(folder, 'stack-valkey');
      cpSync(join(folder, 'stack'), join(own, 'charts/stack'), { recursive: true });
      const wanted = parse(readFileSync(join(own, 'Chart.yaml'), 'utf8')) as {
        dependencies: { name: string; version: string }[];
      };
      const version = wanted.dependencies.find(({ name }) => name === 'valkey')?.version;
      mkdirSync(join(own, 'charts/valkey/templates'), { recursive: true });
      writeFileSync(
        join(own, 'charts/valkey/Chart.yaml'),
        stringify({ apiVersion: 'v2', name: 'valkey', version }),
      );
      writeFileSync(
        join(own, 'charts/valkey/templates/values.yaml'),
        '{ apiVersion: v1, kind: ConfigMap, metadata: { name: valkey }, data: { values: {{ toYaml .Values | quote }} } }\n',
      );
      return render('stack-valkey', options);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Kind and name, by which an object is spoken of. */
export const nameOf = ({ kind, metadata }: RenderedObject): string => `${kind}/${metadata.name}`;

/** Text of a golden file. Dashboards, which are files of deploy/dashboards, are shown by their size. */
export const goldenText = (objects: readonly RenderedObject[]): string =>
  objects
    .map((object) =>
      object.data && nameOf(object).includes('-dashboard-')
        ? { ...object, data: Object.keys(object.data) }
        : object,
    )
    .map((object) => stringify(object, { lineWidth: 0 }))
    .join('---\n');

/** Path of the golden file of a value set. */
export const goldenFile = (valueSet: string): string =>
  pathOf(`tools/deploy-check/src/testdata/charts/${valueSet}.yaml`);
