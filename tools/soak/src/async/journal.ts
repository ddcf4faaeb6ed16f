import { createWriteStream, readFileSync } from 'node:fs';
import { once } from 'node:events';

/** What a client was told. Times are those of this machine's clock, in milliseconds. */
export interface Told {
  readonly at: number;
  /** When the call began. */
  readonly since: number;
  /** Number of the logical request; its body carries it to the target. */
  readonly n: number;
  readonly call: 'post' | 'wait' | 'get' | 'delete' | 'foreign-get' | 'other-body';
  /** 0: no answer at all. */
  readonly status: number;
  /** `pending`: accepted and without outcome. `outcome`: how it ended. `refused`: nothing was said of the request. */
  readonly says: 'pending' | 'outcome' | 'gone' | 'refused' | 'done';
  /** The outcome's bytes, hashed with the status. */
  readonly hash?: string;
  readonly code?: string;
}

/** A run at the target. */
export interface Ran {
  readonly at: number;
  readonly n: number;
}

/** An answer of the target that went out. */
export interface Answered {
  readonly at: number;
  readonly n: number;
}

/** Something was broken from then to then. */
export interface Broken {
  readonly from: number;
  readonly to: number;
  readonly what: string;
}

/** One of those that were queued one after the other before any worker ran (I8). */
export interface Ordered {
  readonly n: number;
  readonly timeoutSeconds: number;
}

/** A file of JSON lines. */
export class Journal {
  readonly #stream;

  constructor(file: string) {
    this.#stream = createWriteStream(file);
  }

  write(line: object): void {
    this.#stream.write(`${JSON.stringify(line)}\n`);
  }

  async close(): Promise<void> {
    this.#stream.end();
    await once(this.#stream, 'finish');
  }
}

/** All lines of a journal. */
export function readJournal<T>(file: string): T[] {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  // Whoever reads a journal knows who wrote it.
  return lines.map((line) => JSON.parse(line) as T);
}
