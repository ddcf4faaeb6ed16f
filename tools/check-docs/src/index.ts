export { communicationPage, goldenFiles } from './pages.ts';
export { markersOf, refreshExamples } from './refresh-examples.ts';
