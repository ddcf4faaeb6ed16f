export { median } from './median.ts';
export { printTable } from './print-table.ts';
