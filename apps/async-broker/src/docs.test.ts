import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { BrokerMetrics } from './broker-metrics.ts';
import { brokerFile } from './config.ts';

const page = readFileSync(join(import.meta.dirname, '../../../docs/apps/async-broker.md'), 'utf8');

function rowsOf(heading: string, firstCell: RegExp): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return section
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')),
    )
    .filter(([first = '']) => firstCell.test(first));
}

/** Keys of a schema as the page names them. */
function keysOf(schema: z.ZodType, path = ''): string[] {
  let inner = schema;
  while (inner instanceof z.ZodPrefault || inner instanceof z.ZodOptional) {
    inner = inner.unwrap() as z.ZodType;
  }
  if (inner instanceof z.ZodObject) {
    const shape = inner.shape as Record<string, z.ZodType>;
    return Object.entries(shape).flatMap(([name, value]) =>
      keysOf(value, path === '' ? name : `${path}.${name}`),
    );
  }
  if (inner instanceof z.ZodRecord) {
    return keysOf(inner.valueType as z.ZodType, `${path}.<name>`);
  }
  return inner instanceof z.ZodArray
    ? [path, ...keysOf(inner.element as z.ZodType, `${path}[]`)]
    : [path];
}

describe('docs/apps/async-broker.md', () => {
  it('has every metric with its type and labels, and no other', () => {
    const metrics = new BrokerMetrics();
    metrics.watch({
      inHand: () => 0,
      lanes: () => [],
      bands: () => [],
      health: () => ({ isReady: true, memoryRatio: 0 }),
    });
    // prom-client does not say which types and labels a metric has, but keeps them.
    const real = metrics.registry.getMetricsAsArray().map((metric) => {
      const { name, type, labelNames } = metric as unknown as Record<string, string> & {
        labelNames: readonly string[];
      };
      return { name, type, labels: labelNames.join(', ') };
    });
    const rows = rowsOf('Metrics', /^llm_d_/);
    expect(rows.map(([name, type, labels]) => ({ name, type, labels }))).toEqual(real);
  });

  it('has every key of the file, and no other', () => {
    const documented = rowsOf('Configuration', /^[a-z]/)
      .map(([key = '']) => key.replace('<tier>', '<name>'))
      .filter((key) => key !== 'key' && key !== 'flag' && !key.startsWith('--'));
    expect(documented.toSorted()).toEqual(keysOf(brokerFile).toSorted());
  });
});
