import { parentPort } from 'node:worker_threads';

import { RenderError } from '../errors.ts';
import { buildTensor, type TensorJob } from './build-tensor.ts';

/** What a thread is asked: a job, and memory for its text. */
export interface ThreadRequest {
  readonly job: TensorJob;
  readonly spare: ArrayBuffer | undefined;
}

/** What it answers: the blob in base64, or the parts of the refusal. */
export type ThreadReply =
  | { readonly base64: Uint8Array<ArrayBuffer> }
  | { readonly refusal: Pick<RenderError, 'status' | 'type' | 'message' | 'param'> };

parentPort?.on('message', (request: ThreadRequest) => {
  void answer(request);
});

/** An error loses its class between threads, so a refusal travels as a value; any other error ends the thread. */
async function answer({ job, spare }: ThreadRequest): Promise<void> {
  try {
    const base64 = await buildTensor(job, spare);
    send({ base64 }, base64.buffer);
  } catch (error) {
    if (!(error instanceof RenderError)) throw error;
    const { status, type, message, param } = error;
    send({ refusal: { status, type, message, param } });
  }
}

function send(reply: ThreadReply, ...transfer: ArrayBuffer[]): void {
  parentPort?.postMessage(reply, transfer);
}
