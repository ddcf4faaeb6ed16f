import { readFileSync, writeFileSync } from 'node:fs';
import { communicationPage, goldenFiles } from './pages.ts';
import { refreshExamples } from './refresh-examples.ts';

/** Writes the examples of the documentation anew from the golden files. */
writeFileSync(
  communicationPage,
  refreshExamples(readFileSync(communicationPage, 'utf8'), goldenFiles),
);
