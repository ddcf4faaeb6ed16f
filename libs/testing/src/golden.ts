import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from '@jest/globals';
import { formatJson } from './format-json.ts';

/**
 * Compares a value with a recorded file below `testdata/`; `UPDATE_GOLDEN=1` writes the file instead. Bytes and texts
 * count as they are. In a `.json` file they are laid out for reading, which changes blanks between tokens only; any
 * other value is written as JSON.
 *
 * @throws Error when the file is missing; a Jest assertion when it differs.
 */
export function expectGolden(directory: string, file: string, value: unknown): void {
  const path = join(directory, 'testdata', file);
  const actual = toText(file, value);
  if (process.env['UPDATE_GOLDEN'] === '1') {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, actual);
    return;
  }
  if (!existsSync(path)) {
    throw new Error(
      `${path} is missing: run the test with UPDATE_GOLDEN=1 and review what it writes`,
    );
  }
  expect(actual).toBe(readFileSync(path, 'utf8'));
}

function toText(file: string, value: unknown): string {
  let text: string;
  if (typeof value === 'string') text = value;
  else if (value instanceof Uint8Array) text = Buffer.from(value).toString('utf8');
  else text = JSON.stringify(value);
  return file.endsWith('.json') ? formatJson(text) : text;
}
