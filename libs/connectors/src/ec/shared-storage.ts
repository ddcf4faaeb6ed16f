import { type EcConnector } from './ec-connector.ts';

/** Shared storage: the encode pod writes the embedding under its media hash, prefill reads it back. */
export const sharedStorage: EcConnector = {
  collects: false,
  prefillParams: () => undefined,
};
