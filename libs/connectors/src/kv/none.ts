import { type SerialKvConnector } from './kv-connector.ts';

/** No hand-off: one pod does both phases, or the engine needs no word from us to find the blocks. */
export const none: SerialKvConnector = {
  isConcurrent: false,
  isLeased: false,
  prefillParams: () => undefined,
  decodeParams: () => ({ params: undefined, missing: [] }),
};
