import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { AsyncMetrics, CoordinatorMetrics } from '@llm-d/telemetry';

const root = join(import.meta.dirname, '../../../..');
const page = readFileSync(join(root, 'docs/async-requests.md'), 'utf8');

describe('docs/async-requests.md', () => {
  it('has every metric of the queue with its type and labels, and no other', () => {
    const section = page.split('\n## What the coordinator measures\n')[1]?.split('\n## ')[0] ?? '';
    const documented = [...section.matchAll(/^\| `(\w+)` +\| (\w+) +\| ([^|]*?) *\|/gm)].map(
      ([, name, type, labels = '']) => ({
        ...{ name: `llm_d_async_broker_${name}`, type },
        labels: labels === '' ? [] : labels.replaceAll('`', '').split(', '),
      }),
    );
    const { registry } = new CoordinatorMetrics();
    const others = registry.getMetricsAsArray().length;
    new AsyncMetrics(registry, () => undefined);
    // prom-client does not say which types and labels a metric has, but keeps them.
    const real = registry
      .getMetricsAsArray()
      .slice(others)
      .map((metric) => {
        const { name, type, labelNames } = metric as unknown as {
          name: string;
          type: string;
          labelNames: string[];
        };
        return { name, type, labels: labelNames };
      });
    expect(documented).toEqual(real);
  });
});
