import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { chartReadmeText } from './chart-readmes.ts';
import { chartSchemaText } from './chart-schemas.ts';
import { buildCharts, chartNames, goldenFile, goldenText, valueSets } from './charts.ts';
import { pathOf } from './deploy-files.ts';
import { chartCopies } from './chart-copies.ts';

// Writes what is made from other files: schemas, copies and READMEs of the charts, then their golden renderings.
for (const chart of chartNames) {
  writeFileSync(pathOf(`deploy/charts/${chart}/values.schema.json`), chartSchemaText(chart));
}
for (const chart of [...chartNames, 'stack-valkey']) {
  writeFileSync(pathOf(`deploy/charts/${chart}/README.md`), chartReadmeText(chart));
}
for (const { from, to } of chartCopies()) copyFileSync(pathOf(from), pathOf(to));
const charts = await buildCharts('helm4');
try {
  for (const valueSet of valueSets) {
    const file = goldenFile(valueSet);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, goldenText(await charts.render('stack', { valueSet })));
  }
} finally {
  charts.remove();
}
