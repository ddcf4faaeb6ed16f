import { readFileSync, writeFileSync } from 'node:fs';
import {
  addingAStepPage,
  communicationPage,
  configurationPage,
  goldenFiles,
  root,
} from './pages.ts';
import { refreshExamples } from './refresh-examples.ts';
import { refreshFiles } from './refresh-files.ts';
import { refreshTables } from './refresh-tables.ts';

/** Writes anew what the documentation takes from golden files, schemas and the example. */
rewrite(communicationPage, (page) => refreshExamples(page, goldenFiles));
rewrite(addingAStepPage, (page) => refreshFiles(page, root));
rewrite(configurationPage, refreshTables);

function rewrite(file: string, refresh: (page: string) => string): void {
  writeFileSync(file, refresh(readFileSync(file, 'utf8')));
}
