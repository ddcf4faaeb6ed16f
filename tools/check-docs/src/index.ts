export { errorCodesOf, sourceFiles } from './error-codes.ts';
export {
  addingAStepPage,
  communicationPage,
  configurationPage,
  errorsPage,
  goldenFiles,
} from './pages.ts';
export { markersOf, refreshExamples } from './refresh-examples.ts';
export { refreshFiles } from './refresh-files.ts';
export { neededTables, refreshTables, tablesOf } from './refresh-tables.ts';
