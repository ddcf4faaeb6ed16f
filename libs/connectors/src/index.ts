import { type EcConnector } from './ec/ec-connector.ts';
import { nixl as ecNixl } from './ec/nixl.ts';
import { sharedStorage as ecSharedStorage } from './ec/shared-storage.ts';
import { type KvConnector } from './kv/kv-connector.ts';
import { nixl as kvNixl } from './kv/nixl.ts';
import { sharedStorage as kvSharedStorage } from './kv/shared-storage.ts';

export { type EcConnector, EcConflictError } from './ec/ec-connector.ts';
export { type DecodeParams, type KvConnector } from './kv/kv-connector.ts';

/** KV connectors by their name in the configuration. */
export const kvConnectors = {
  'kv-nixl': kvNixl,
  'kv-shared-storage': kvSharedStorage,
} satisfies Record<string, KvConnector>;

/** EC connectors by their name in the configuration. */
export const ecConnectors = {
  'ec-nixl': ecNixl,
  'ec-shared-storage': ecSharedStorage,
} satisfies Record<string, EcConnector>;

export type KvConnectorName = keyof typeof kvConnectors;
export type EcConnectorName = keyof typeof ecConnectors;

/** Connectors whose prefill and decode legs must be in flight together, which the steps prefill and decode cannot do. */
const concurrentConnectors = ['kv-sglang'];

/** An empty or absent name means shared storage. @throws Error when the name is unknown. */
export function kvConnector(name: string | undefined): KvConnector {
  if (name && concurrentConnectors.includes(name)) {
    throw new Error(
      `kv_connector: ${name} needs prefill and decode at the same time (a step prefill-decode), which this version does not have`,
    );
  }
  return choose(kvConnectors, 'kv_connector', name || 'kv-shared-storage');
}

/** An empty or absent name means shared storage. @throws Error when the name is unknown. */
export function ecConnector(name: string | undefined): EcConnector {
  return choose(ecConnectors, 'ec_connector', name || 'ec-shared-storage');
}

function choose<T>(table: Record<string, T>, key: string, name: string): T {
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found) return found;
  throw new Error(`${key}: expected one of ${Object.keys(table).join(', ')}, got "${name}"`);
}
