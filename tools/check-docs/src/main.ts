import { readFileSync, writeFileSync } from 'node:fs';
import { communicationPage, configurationPage, goldenFiles } from './pages.ts';
import { refreshExamples } from './refresh-examples.ts';
import { refreshTables } from './refresh-tables.ts';

/** Writes anew what the documentation takes from golden files and schemas. */
rewrite(communicationPage, (page) => refreshExamples(page, goldenFiles));
rewrite(configurationPage, refreshTables);

function rewrite(file: string, refresh: (page: string) => string): void {
  writeFileSync(file, refresh(readFileSync(file, 'utf8')));
}
