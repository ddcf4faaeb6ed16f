export { type EngineState } from './engine.ts';
export { optionNames, roles, type Role, type WorkerOptions } from './options.ts';
export { type EcSource, type KvSource, type Outcome, type RecordedRequest } from './request-log.ts';
export { startWorker, type Worker, type WorkerParts } from './worker.ts';
