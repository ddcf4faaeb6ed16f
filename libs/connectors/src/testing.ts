import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonSpan, rootOf } from '@llm-d/json-document';

/** A value as an upstream's answer holds it; for tests of this package. */
export const answer = (text: string): JsonSpan => rootOf(Buffer.from(text));

/** A recorded answer below `testdata/`. */
export const recorded = (file: string): JsonSpan =>
  rootOf(readFileSync(join(import.meta.dirname, 'testdata', file)));
