import { type Dispatcher } from 'undici';
import { type AddressGuard, createAddressGuard } from './address-guard.ts';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { createGuardedDispatcher, type ProxyConfig } from './guarded-dispatcher.ts';
import { type MediaFetchOptions, type MediaLimits } from './options.ts';
import { checkedResolver, type ResolveChecked, systemResolve } from './resolve-host.ts';
import { type UrlPolicy } from './url-policy.ts';

/** One way out: pooled sockets may be shared only by calls with the same address rules. */
export interface Route {
  readonly guard: AddressGuard;
  readonly resolve: ResolveChecked;
  readonly dispatcher: Dispatcher;
}

/** The ways out of a fetcher and the rules for its URLs. The owner calls `close`. */
export class Routes {
  readonly proxy: ProxyConfig | undefined;
  readonly #config: MediaFetcherConfig;
  readonly #limits: MediaLimits;
  readonly #public: Route;
  readonly #private: Route;

  /** Throws an Error for a malformed CIDR. */
  constructor(config: MediaFetcherConfig, limits: MediaLimits) {
    const { proxy } = config;
    this.#config = config;
    this.#limits = limits;
    this.proxy = (proxy?.httpProxy ?? '') + (proxy?.httpsProxy ?? '') === '' ? undefined : proxy;
    this.#public = this.#create(false);
    this.#private = this.#create(true);
  }

  /** The way that a call with these options takes. */
  of(options: MediaFetchOptions): Route {
    return options.allowPrivateNetworks ? this.#private : this.#public;
  }

  /** What a URL of such a call has to pass before and behind every redirect. */
  policy(options: MediaFetchOptions): UrlPolicy {
    return {
      guard: this.of(options).guard,
      maxUrlLength: this.#limits.maxUrlLength,
      allowedDomains: options.allowedDomains,
      excusedDomains: options.excusedDomains ?? options.allowedDomains,
      blockedDomains: this.#config.blockedDomains ?? [],
      allowedPorts: this.#config.allowedPorts ?? [],
    };
  }

  /** Resolves when every socket is closed. */
  async close(): Promise<void> {
    await Promise.all([this.#public.dispatcher.close(), this.#private.dispatcher.close()]);
  }

  #create(allowPrivateNetworks: boolean): Route {
    const { extraCa, resolve = systemResolve, testOnlyBuildConnector } = this.#config;
    const guard = createAddressGuard({ ...this.#config, allowPrivateNetworks });
    const checked = checkedResolver(resolve, guard, this.#limits.dnsTimeoutMs);
    const dispatcher = createGuardedDispatcher({
      guard,
      resolve: checked,
      limits: this.#limits,
      proxy: this.proxy,
      extraCa,
      buildConnector: testOnlyBuildConnector,
    });
    return { guard, resolve: checked, dispatcher };
  }
}
