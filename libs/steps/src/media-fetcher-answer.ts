import { z } from 'zod';
import { type MediaFrames } from './media-frames.ts';

const maxProblemBytes = 64 * 1024;

const problem = z.object({
  code: z.string(),
  detail: z.string(),
  retryable: z.boolean().optional(),
  index: z.int().nonnegative().optional(),
  limit: z.number().optional(),
  actual: z.number().optional(),
  hop: z.number().optional(),
  cause_code: z.string().optional(),
  origin_status: z.int().nullish(),
});

/** An answer of a media fetcher while it arrives: frames, or a problem. */
export class MediaFetcherAnswer {
  readonly frames: MediaFrames;
  readonly #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #isProblem = false;
  status: number | undefined;

  constructor(frames: MediaFrames) {
    this.frames = frames;
  }

  start(status: number, headers: readonly string[]): boolean {
    this.status = status;
    const at = headers.findIndex((name, i) => i % 2 === 0 && /^content-type$/i.test(name));
    this.#isProblem = /^application\/problem\+json/i.test(headers[at + 1] ?? '');
    return status === 200 || this.#isProblem;
  }

  data(chunk: Uint8Array): void {
    if (this.status === 200) this.frames.add(chunk);
    else if ((this.#pieceBytes += chunk.length) <= maxProblemBytes) this.#pieces.push(chunk);
  }

  /** Undefined when it is none. */
  problem(): z.output<typeof problem> | undefined {
    if (!this.#isProblem) return undefined;
    try {
      return problem.parse(JSON.parse(Buffer.concat(this.#pieces).toString('utf8')));
    } catch {
      return undefined;
    }
  }
}
