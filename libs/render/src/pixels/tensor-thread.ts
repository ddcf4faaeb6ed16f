import { Worker } from 'node:worker_threads';

import { RenderError } from '../errors.ts';
import { type TensorJob } from './build-tensor.ts';
import { type ThreadReply, type ThreadRequest } from './thread-script.ts';

/** The script runs from `src` in tests and from `dist` in production. */
const SCRIPT = new URL(
  import.meta.url.endsWith('.ts') ? './thread-script.ts' : './thread-script.js',
  import.meta.url,
);

const ENDED = failure(500, 'InternalServerError', 'Processing the image ended early.');

/** A thread that builds one tensor at a time. While it does nothing it does not keep the process alive. */
export class TensorThread {
  private readonly worker = new Worker(SCRIPT);
  private job: PromiseWithResolvers<Uint8Array<ArrayBuffer>> | undefined;
  private ended = false;

  constructor() {
    this.worker.unref();
    this.worker.on('message', (reply: ThreadReply) => {
      if ('base64' in reply) {
        this.job?.resolve(reply.base64);
      } else {
        const { status, type, message, param } = reply.refusal;
        this.job?.reject(new RenderError(status, type, message, param));
      }
    });
    this.worker.on('error', (cause) => {
      this.fail(failure(500, 'InternalServerError', 'Processing the image failed.', cause));
    });
    this.worker.on('exit', () => {
      this.fail(ENDED);
    });
  }

  /** False once the thread takes no further job. */
  get isAlive(): boolean {
    return !this.ended;
  }

  /**
   * Builds a tensor, in `spare` where it has room; not while another job runs. Rejects with a `RenderError`: the refusal of the image, 500 when the
   * thread breaks, 504 after `timeoutMs`. After the last two it is no longer alive.
   */
  async run(
    job: TensorJob,
    timeoutMs: number,
    spare?: ArrayBuffer,
  ): Promise<Uint8Array<ArrayBuffer>> {
    // A copy to hand over: the bytes may be part of a larger buffer, which would go along.
    const file = new Uint8Array(job.file);
    const current = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    const timer = setTimeout(() => {
      void this.end(
        failure(504, 'TimeoutError', `Processing an image took longer than ${timeoutMs} ms.`),
      );
    }, timeoutMs);
    this.job = current;
    this.worker.ref();
    const request: ThreadRequest = { job: { ...job, file }, spare };
    this.worker.postMessage(request, spare === undefined ? [file.buffer] : [file.buffer, spare]);
    if (this.ended) current.reject(ENDED);
    try {
      return await current.promise;
    } finally {
      clearTimeout(timer);
      this.worker.unref();
    }
  }

  /** Stops the thread; a job that runs is rejected with `reason`. */
  async end(reason: RenderError): Promise<void> {
    this.fail(reason);
    await this.worker.terminate();
  }

  private fail(reason: RenderError): void {
    this.ended = true;
    this.job?.reject(reason);
  }
}

function failure(status: number, type: string, message: string, cause?: unknown): RenderError {
  return new RenderError(status, type, message, null, { cause });
}
