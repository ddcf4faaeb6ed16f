import { randomBytes } from 'node:crypto';
import { hostOf } from './bootstrap.ts';
import { type ConcurrentKvConnector } from './kv-connector.ts';

/** SGLang: prefill waits in a numbered room for the decode pod, which finds it by host and port. */
export const sglang: ConcurrentKvConnector = {
  isConcurrent: true,
  bootstrap: (endpoint, port) => ({
    bootstrap_host: hostOf(endpoint),
    bootstrap_port: port,
    bootstrap_room: newRoom(),
    // A rank that a client chose would look for the room elsewhere.
    routed_dp_rank: undefined,
    data_parallel_rank: undefined,
    disagg_prefill_dp_rank: undefined,
  }),
  conflictingHeaders: ['x-data-parallel-rank'],
};

/** 53 bits: every program that reads JSON numbers as doubles keeps them. */
const newRoom = (): number => Number(randomBytes(8).readBigUInt64BE() >> 11n);
