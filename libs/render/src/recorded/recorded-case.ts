import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { type ProfileOptions } from '../profile.ts';

/** Beside this folder, in `src`. */
export const TESTDATA = join(import.meta.dirname, '../testdata');

/** What a renderer or a served shim answered. */
export interface Answer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
  /** Output of the chat template, where it is known. */
  readonly promptText?: string | undefined;
}

/** One request that was recorded from vLLM, and what it answered. */
export interface RecordedCase {
  readonly id: string;
  readonly path: string;
  /** Read anew each time: the images are many. */
  readonly body: () => Buffer;
  /** Why we answer something else on purpose; undefined when the answer must be equal. */
  readonly difference: string | undefined;
  /** Throws when an answer is not what was recorded. */
  readonly check: (answer: Answer) => void;
}

/** A server that was recorded, and the options under which our renderer stands for it. */
export interface RecordedServer {
  readonly name: string;
  readonly options: ProfileOptions;
  readonly cases: readonly RecordedCase[];
}

/** Error object of vLLM, as far as it is compared. */
export interface RecordedError {
  readonly error: { readonly type: string; readonly param: string | null };
}

/** A file of one JSON value per line. */
export function readLines(file: string): unknown[] {
  return readFileSync(join(TESTDATA, file), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
}

/** A JSON file that maps cases to the reasons why they differ. */
export function readDifferences(file: string): Readonly<Record<string, string>> {
  return JSON.parse(readFileSync(join(TESTDATA, file), 'utf8')) as Record<string, string>;
}
