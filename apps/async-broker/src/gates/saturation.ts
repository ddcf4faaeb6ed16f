/** How a request counts against its tenant's quota at dispatch. */
export type Classification = 'reserved' | 'overflow';

/** What happens to a request that a gate does not let through. */
export type Refusal = 'wait' | 'refuse' | 'drop';

/** `wait`: every request waits in hand. `by-tier`: overflow gives its place up (3.3, tier-priority-admission). */
export type SaturationRule = 'wait' | 'by-tier';

/**
 * What a request does while the target is saturated. Reserved work waits; overflow of people who watch is turned away at
 * once, other overflow goes back to its queue.
 */
export function whenSaturated(
  rule: SaturationRule,
  classification: Classification,
  tier: string,
): Refusal {
  if (rule === 'wait' || classification === 'reserved') return 'wait';
  return tier === 'interactive' ? 'drop' : 'refuse';
}
