export { loadOptions } from './load-options.ts';
export { median } from './median.ts';
export { printTable } from './print-table.ts';
