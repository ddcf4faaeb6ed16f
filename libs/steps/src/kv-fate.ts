import { type Api } from '@llm-d/gateway';
import { ResponseStartedError, UpstreamError } from '@llm-d/pipeline';

/**
 * What became of a set of KV params whose decode leg failed after it had been sent. `taken`: a pod has it or may have
 * it. `freed`: the pod refused the request and told prefill. `returned`: nobody took it, another call may.
 * `left`: nobody took it and nobody will.
 */
export type KvFate = 'taken' | 'freed' | 'returned' | 'left';

interface Refusal {
  readonly status: number;
  /** Gateways explain themselves in plain text, workers in JSON. */
  readonly isJson: boolean;
  readonly api: Api;
}

/**
 * The rules in order, the first that fits holds (engine-verified.md 4, gateway-verified.md). Without an answer, or past
 * its start, a set is always `taken`: it cannot be told from one that was read, and is never sent again.
 */
const rules: readonly (readonly [fits: (refusal: Refusal) => boolean, fate: KvFate])[] = [
  // The pod looks at the body before the params: our own call has other sampling params.
  [({ status, isJson, api }) => status === 400 && isJson && api === 'generate', 'returned'],
  [({ status, isJson }) => status === 400 && isJson, 'freed'],
  // No room, no such model, not allowed: another call would hear the same, and add to the load.
  [({ status }) => status < 500 || status === 503, 'left'],
  // An endpoint picker that is down; a pod's own 500 is a load that failed.
  [({ status, isJson }) => status === 500 && !isJson, 'left'],
];

/** Applies the rules above to an answer of 400 or more. */
export function fateAfterRefusal(refusal: Refusal): KvFate {
  return rules.find(([fits]) => fits(refusal))?.[1] ?? 'taken';
}

/** Applies them to what a decode leg threw. */
export function fateAfter(error: unknown, api: Api): KvFate {
  if (error instanceof UpstreamError) {
    return fateAfterRefusal({ status: error.upstreamStatus, isJson: false, api });
  }
  // Status 0 stands for an answer that broke off.
  if (error instanceof ResponseStartedError && error.status >= 400) {
    return fateAfterRefusal({ status: error.status, isJson: true, api });
  }
  return 'taken';
}
