import { beforeEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { metricFamilies } from './metric-families.ts';
import { ModelTable } from './model-table.ts';

let registry: Registry;
let table: ModelTable;

beforeEach(() => {
  registry = new Registry();
  table = new ModelTable(
    metricFamilies(registry, { requests: () => {}, steps: () => {}, admission: () => undefined }),
  );
});

/** Fills the table with 1000 names. */
function fill(isServed: boolean): void {
  for (let i = 0; i < 1_000; i++) {
    const series = table.of(`m-${i}`);
    if (isServed) table.prove(series);
  }
}

describe('ModelTable', () => {
  it.each([
    { name: '', label: 'unknown' },
    { name: 'unknown', label: 'unknown' },
    { name: 'other', label: 'other' },
    { name: 'Qwen/Qwen3-VL', label: 'Qwen/Qwen3-VL' },
    { name: 'x'.repeat(257), label: 'other' },
  ])('labels the model "$name" as $label', ({ name, label }) => {
    expect(table.of(name).name).toBe(label);
  });

  it('gives a model the same series every time', () => {
    expect(table.of('m')).toBe(table.of('m'));
  });

  it('counts the model after 1000 served ones as other, and these as themselves', () => {
    fill(true);
    expect(table.of('m-1000').name).toBe('other');
    expect(table.of('m-0').name).toBe('m-0');
  });

  it('lets a new name take the place of the oldest that was never served, whose series end', async () => {
    fill(false);
    table.of('m-0').total.inc();
    table.of('m-0').error('bad_request').inc();
    table.of('m-0').path('decode-only').inc();
    table.of('m-0').usage('prompt').inc(3);
    table.of('m-0').duration.observe(1);
    table.of('m-0').size.observe(1);
    table.of('m-0').inputTokens.observe(1);
    expect(await registry.metrics()).toContain('"m-0"');
    expect(table.of('real').name).toBe('real');
    expect(await registry.metrics()).not.toContain('"m-0"');
    expect([...table.all()]).toHaveLength(1_002);
  });

  it('keeps names that are being served or were served', () => {
    fill(false);
    table.of('m-0').running = 1;
    table.prove(table.of('m-1'));
    table.of('new');
    const names = [...table.all()].map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['m-0', 'm-1', 'new']));
    expect(names).not.toContain('m-2');
  });
});
