export { fuzz, type FuzzOptions, type FuzzResult } from './fuzz.ts';
