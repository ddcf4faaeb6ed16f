import { type EndpointSpec } from './options.ts';
import { type Candidate } from './picker.ts';

/** One pod and its state. `matchedBlocks` belongs to the request that is being picked for. */
export interface Endpoint extends Candidate {
  spec: EndpointSpec;
  /** `host:port`, brackets around IPv6. */
  authority: string;
  isHealthy: boolean;
  failedChecks: number;
  /** From `performance.now()`; 0 when not ejected. */
  ejectedUntilMs: number;
}

const failuresUntilOut = 2;

/** The pods of a gateway and what it knows about them. */
export class EndpointTable {
  readonly all: readonly Endpoint[];
  readonly #ejectMs: number;

  constructor(specs: readonly EndpointSpec[], ejectMs: number) {
    this.#ejectMs = ejectMs;
    this.all = specs.map((spec) => ({
      spec,
      name: spec.name,
      authority: `${spec.address.includes(':') ? `[${spec.address}]` : spec.address}:${spec.port}`,
      isHealthy: true,
      failedChecks: 0,
      ejectedUntilMs: 0,
      activeRequests: 0,
      inflightTokens: 0,
      matchedBlocks: 0,
    }));
  }

  /** Pods that may get a request now. */
  usable(): Endpoint[] {
    const now = performance.now();
    return this.all.filter(({ isHealthy, ejectedUntilMs }) => isHealthy && ejectedUntilMs <= now);
  }

  /** Takes a pod out for a while because it refused a connection. */
  eject(endpoint: Endpoint): void {
    endpoint.ejectedUntilMs = performance.now() + this.#ejectMs;
  }

  /** Result of one health check: two failures take a pod out, one success brings it back. */
  checked(endpoint: Endpoint, isGood: boolean): void {
    endpoint.failedChecks = isGood ? 0 : endpoint.failedChecks + 1;
    endpoint.isHealthy = isGood || (endpoint.isHealthy && endpoint.failedChecks < failuresUntilOut);
  }
}
