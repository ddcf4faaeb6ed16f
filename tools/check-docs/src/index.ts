export { communicationPage, configurationPage, goldenFiles } from './pages.ts';
export { markersOf, refreshExamples } from './refresh-examples.ts';
export { neededTables, refreshTables, tablesOf } from './refresh-tables.ts';
