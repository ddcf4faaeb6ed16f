import { type Registry } from 'prom-client';

/** A scrape's answer. */
export interface MetricsText {
  readonly contentType: string;
  readonly body: string;
}

const openMetricsType = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

/** A counter's family: OpenMetrics names it without the suffix that its samples have. */
const counterFamily = /^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm;

/**
 * All metrics of a registry as text: OpenMetrics for scrapers that name it in `accept`, else the format of Prometheus.
 * prom-client's own OpenMetrics writer renames the counters of the registry for good, so its text is rewritten here.
 */
export async function metricsText(
  registry: Registry,
  accept: string | undefined,
): Promise<MetricsText> {
  const text = await registry.metrics();
  if (!accept?.includes('application/openmetrics-text')) {
    return { contentType: registry.contentType, body: text };
  }
  const lines = text.replace(counterFamily, '# HELP $1 $2\n# TYPE $1 counter');
  return { contentType: openMetricsType, body: `${lines.replaceAll(/\n\n+/g, '\n')}# EOF\n` };
}
