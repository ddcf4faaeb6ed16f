import { expect, it } from '@jest/globals';
import { executionPath } from './execution-path.ts';

it.each([
  { started: [], path: undefined },
  { started: ['render', 'encode', 'prefill'], path: undefined },
  { started: ['conditional-decode'], path: 'decode-only' },
  { started: ['render', 'decode'], path: 'decode-only' },
  { started: ['encode', 'decode'], path: 'decode-only' },
  { started: ['conditional-decode', 'prefill', 'decode'], path: 'prefill-decode' },
  { started: ['encode', 'prefill', 'decode'], path: 'encode-prefill-decode' },
  { started: ['prefill-decode'], path: 'prefill-decode' },
  { started: ['encode', 'prefill-decode'], path: 'encode-prefill-decode' },
])('the path by $started is $path', ({ started, path }) => {
  expect(executionPath(new Set(started))).toBe(path);
});
