import { type buildConnector } from 'undici';
import { type AddressPolicyConfig } from './address-guard.ts';
import { type MediaCache } from './cache/media-cache.ts';
import { type DomainRule } from './domain-rules.ts';
import { type OriginHeaders } from './download.ts';
import { type EndedDownload } from './ended-download.ts';
import { type EndedItem } from './ended-item.ts';
import { type ProxyConfig } from './guarded-dispatcher.ts';
import { type MediaLimits } from './options.ts';
import { type ResolveHost } from './resolve-host.ts';

/** Construction of a `MediaFetcher`; every part has a default (media-fetcher.md 3, 4 and 11). */
export interface MediaFetcherConfig extends Omit<AddressPolicyConfig, 'allowPrivateNetworks'> {
  readonly limits?: Partial<MediaLimits>;
  /** Several hosts answer 403 to requests that do not say who asks. */
  readonly userAgent?: string;
  /** From `parseAllowedDomains`; wins over the `allowedDomains` of a call. */
  readonly blockedDomains?: readonly DomainRule[];
  /** When set, the only ports that may be asked. */
  readonly allowedPorts?: readonly number[];
  readonly allowHttpsDowngrade?: boolean;
  /** Headers for private stores; never seen by another host, nor over plain http. */
  readonly originHeaders?: readonly OriginHeaders[];
  /** Without one of the two URLs there is no proxy; the environment is not read here. */
  readonly proxy?: ProxyConfig;
  /** PEM certificates trusted beside those of Node. */
  readonly extraCa?: string;
  /** Told of every download that was tried on the network, when it has ended. Must not throw. */
  readonly onDownload?: (download: EndedDownload) => void;
  /** Told of every reference when it has ended. Must not throw. */
  readonly onItem?: (item: EndedItem) => void;
  /** Replaces the system's resolver; its answers are checked all the same. */
  readonly resolve?: ResolveHost;
  /** Without one every reference is downloaded. The fetcher closes it. */
  readonly cache?: MediaCache;
  /** Makes the connectors that the address guard wraps. No configuration file reaches it. */
  readonly testOnlyBuildConnector?: typeof buildConnector;
}
