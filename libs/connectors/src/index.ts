import { type EcConnector } from './ec/ec-connector.ts';
import { nixl as ecNixl } from './ec/nixl.ts';
import { sharedStorage as ecSharedStorage } from './ec/shared-storage.ts';
import {
  type ConcurrentKvConnector,
  type KvConnector,
  type SerialKvConnector,
} from './kv/kv-connector.ts';
import { nixl as kvNixl } from './kv/nixl.ts';
import { none as kvNone } from './kv/none.ts';
import { sglang as kvSglang } from './kv/sglang.ts';
import { sharedStorage as kvSharedStorage } from './kv/shared-storage.ts';

export { type EcConnector, EcConflictError } from './ec/ec-connector.ts';
export {
  type BootstrapEdits,
  defaultBootstrapPort,
  EndpointError,
  parseBootstrapPort,
} from './kv/bootstrap.ts';
export {
  type ConcurrentKvConnector,
  type DecodeParams,
  type KvConnector,
  type SerialKvConnector,
} from './kv/kv-connector.ts';

/** KV connectors by their name in the configuration. */
export const kvConnectors = {
  'kv-nixl': kvNixl,
  'kv-shared-storage': kvSharedStorage,
  'kv-sglang': kvSglang,
  'kv-none': kvNone,
} satisfies Record<string, KvConnector>;

/** EC connectors by their name in the configuration. */
export const ecConnectors = {
  'ec-nixl': ecNixl,
  'ec-shared-storage': ecSharedStorage,
} satisfies Record<string, EcConnector>;

export type KvConnectorName = keyof typeof kvConnectors;
export type EcConnectorName = keyof typeof ecConnectors;

/** What an empty or absent name stands for. */
export const defaultKvConnector = 'kv-shared-storage' satisfies KvConnectorName;
export const defaultEcConnector = 'ec-shared-storage' satisfies EcConnectorName;

/** An empty or absent name means shared storage. @throws Error when the name is unknown. */
export function kvConnector(name: string | undefined): KvConnector {
  return choose<KvConnector>(kvConnectors, 'kv_connector', name || defaultKvConnector);
}

/** As `kvConnector`. @throws Error when the legs of this connector must be in flight together. */
export function serialKvConnector(name: string | undefined): SerialKvConnector {
  const connector = kvConnector(name);
  if (!connector.isConcurrent) return connector;
  throw new Error(
    `kv_connector: ${name} needs prefill and decode at the same time: replace the steps prefill and decode by prefill-decode`,
  );
}

/** As `kvConnector`. @throws Error when this connector calls decode after prefill. */
export function concurrentKvConnector(name: string | undefined): ConcurrentKvConnector {
  const connector = kvConnector(name);
  if (connector.isConcurrent) return connector;
  throw new Error(
    `kv_connector: ${name || defaultKvConnector} calls decode after prefill: replace the step prefill-decode by prefill and decode`,
  );
}

/** An empty or absent name means shared storage. @throws Error when the name is unknown. */
export function ecConnector(name: string | undefined): EcConnector {
  return choose(ecConnectors, 'ec_connector', name || defaultEcConnector);
}

function choose<T>(table: Record<string, T>, key: string, name: string): T {
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found) return found;
  throw new Error(`${key}: expected one of ${Object.keys(table).join(', ')}, got "${name}"`);
}
