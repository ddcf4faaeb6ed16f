import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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
const charts = await buildCharts('helm4', false);
try {
  for (const chart of chartNames) {
    const file = pathOf(`deploy/charts/${chart}/Chart.lock`);
    const text = charts.lockText(chart);
    // All but the time.
    const digest = /^digest: .*$/m.exec(text)?.[0] ?? '';
    const isSame = existsSync(file) && readFileSync(file, 'utf8').includes(digest);
    if (!isSame) writeFileSync(file, text);
  }
  for (const valueSet of valueSets) {
    const file = goldenFile(valueSet);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, goldenText(await charts.render('stack', { valueSet })));
  }
} finally {
  charts.remove();
}
