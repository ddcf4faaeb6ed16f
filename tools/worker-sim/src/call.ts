import { type IncomingHttpHeaders } from 'node:http';
import { type Engine } from './engine.ts';
import { type ActiveFaults } from './faults.ts';
import { type InferenceInput } from './inference-input.ts';
import { type Latency } from './latency.ts';
import { type Prompt } from './prompt.ts';
import { type Reply } from './reply.ts';
import { type RecordedRequest } from './request-log.ts';

/** One HTTP call on its way through the worker. */
export interface Call {
  reply: Reply;
  record: RecordedRequest;
  headers: IncomingHttpHeaders;
  body: Uint8Array;
  faults: ActiveFaults;
  /** From `performance.now()`. */
  startedMs: number;
}

/** A call that was understood and admitted: what the phases work on. */
export interface AdmittedCall extends Call {
  engine: Engine;
  input: InferenceInput;
  prompts: Prompt[];
  latency: Latency;
  /** Engine id of the request, `chatcmpl-…`. */
  engineRequestId: string;
}
