import { textOf } from './deploy-files.ts';

/** Metrics of Node and the process that prom-client exports by default. */
const processMetrics = [
  'nodejs_eventloop_lag_p99_seconds',
  'process_cpu_seconds_total',
  'process_resident_memory_bytes',
];

/**
 * Names of the metrics of an app as its page in docs/apps lists them (a test of the app holds it against the registry),
 * with the suffixes that Prometheus adds to histograms.
 */
export function exportedMetrics(app: string): Set<string> {
  const rows = textOf(`docs/apps/${app}.md`).matchAll(
    /^\| `([a-z_]+)` +\| (counter|gauge|histogram)/gm,
  );
  const names = [...rows].flatMap(([, name = '', type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name],
  );
  return new Set([...names, ...processMetrics]);
}

/** Names in an expression of PromQL that can only be metrics: with an underscore, and no label, function or keyword. */
export function metricsIn(expression: string): string[] {
  const withoutLabels = expression
    .replaceAll(/"[^"]*"/g, '')
    .replaceAll(/\{[^}]*\}/g, '')
    .replaceAll(/\b(by|without|on|ignoring)\s*\([^)]*\)/g, '')
    .replaceAll(/\[[^\]]*\]/g, '');
  return [...withoutLabels.matchAll(/[a-z_:][a-z0-9_:]*(?!\s*\(|[a-z0-9_:])/gi)]
    .map(([name]) => name)
    .filter((name) => name.includes('_'));
}
