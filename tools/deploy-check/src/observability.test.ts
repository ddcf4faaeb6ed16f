import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { pathOf, textOf, yamlOf } from './deploy-files.ts';
import { exportedMetrics, metricsIn } from './metric-names.ts';
import { programPath } from './programs.ts';

const exported = new Set(
  ['coordinator', 'media-fetcher'].flatMap((app) => [...exportedMetrics(app)]),
);

/** Those of the queue are compared with what the built apps export (tools/e2e, deploy-files). */
const comparable = (expression: string): string[] =>
  metricsIn(expression).filter((name) => !name.startsWith('llm_d_async_'));
const rulesFile = 'deploy/prometheus/rules.yaml';

interface Rule {
  alert: string;
  expr: string;
  annotations: { summary: string; runbook: string };
}

const rules = (yamlOf(rulesFile) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

let promtool: (...args: string[]) => Promise<{ stdout: string }>;
let folder: string;

beforeAll(async () => {
  const program = await programPath('promtool');
  promtool = (...args) => promisify(execFile)(program, args);
  folder = mkdtempSync(join(tmpdir(), 'promtool-'));
}, 240_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function scratch(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

describe('promtool', () => {
  it('refuses a rule that is no PromQL', async () => {
    const bad = 'groups: [{ name: a, rules: [{ alert: A, expr: "sum(" }] }]';
    await expect(promtool('check', 'rules', scratch('bad.yaml', bad))).rejects.toThrow(/parse/);
  });

  it('refuses rules that do not alert as a test says', async () => {
    const tests = parse(textOf('deploy/prometheus/rules.test.yaml')) as { rule_files: string[] };
    tests.rule_files = [pathOf(rulesFile)];
    const good = JSON.stringify(tests);
    const bad = good.replace('10% of the requests', '11% of the requests');
    expect(bad).not.toBe(good);
    await expect(promtool('test', 'rules', scratch('bad-test.yaml', bad))).rejects.toThrow();
    await expect(promtool('test', 'rules', scratch('good-test.yaml', good))).resolves.toBeDefined();
  });

  it('accepts the rules and the configuration', async () => {
    await promtool('check', 'rules', pathOf(rulesFile));
    await promtool('check', 'config', '--syntax-only', pathOf('deploy/prometheus/prometheus.yaml'));
  });
});

describe('names of metrics', () => {
  it('are found in an expression', () => {
    expect(
      metricsIn(
        'histogram_quantile(0.9, sum by (a_b, le) (rate(x_y_bucket{c_d="e_f"}[5m]))) > z_total',
      ),
    ).toEqual(['x_y_bucket', 'z_total']);
  });

  it('come from the page of the app', () => {
    expect(exported).toContain('llm_d_coordinator_request_total');
    expect(exported).toContain('llm_d_coordinator_step_duration_seconds_bucket');
    expect(exported).not.toContain('llm_d_coordinator_step_duration_seconds');
  });
});

describe.each(rules)('alert $alert', ({ alert, expr, annotations }) => {
  it('looks at metrics that the apps export', () => {
    for (const name of comparable(expr)) expect([...exported]).toContain(name);
  });

  it('has a test and a run-book', () => {
    expect(textOf('deploy/prometheus/rules.test.yaml')).toContain(`alertname: ${alert}`);
    expect(annotations.runbook).toBe(`docs/operations.md#${alert.toLowerCase()}`);
    expect(textOf('docs/operations.md')).toMatch(new RegExp(`^### ${alert}$`, 'm'));
  });
});

describe.each(readdirSync(pathOf('deploy/dashboards')))('dashboard %s', (file) => {
  const { panels } = JSON.parse(textOf(`deploy/dashboards/${file}`)) as {
    panels: { title: string; targets: { expr: string }[] }[];
  };

  it('shows metrics that the apps export, in PromQL', async () => {
    const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    expect(expressions).not.toEqual([]);
    for (const name of expressions.flatMap(comparable)) expect([...exported]).toContain(name);
    const groups = [
      {
        name: 'all',
        rules: expressions.map((expr, i) => ({
          record: `r${i}`,
          expr: expr.replaceAll('$__rate_interval', '1m'),
        })),
      },
    ];
    await promtool('check', 'rules', scratch(file, JSON.stringify({ groups })));
  });
});
