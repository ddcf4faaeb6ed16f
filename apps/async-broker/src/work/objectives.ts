import { type Classification } from '../gates/saturation.ts';

/** Names of InferenceObjectives by tier; a tier without a mapping is dispatched without one. */
export type Objectives = Readonly<Record<string, Readonly<Record<Classification, string>>>>;

/** The objective that a dispatch is stamped with. */
export function objectiveFor(
  objectives: Objectives,
  tier: string,
  classification: Classification,
): string | undefined {
  return Object.hasOwn(objectives, tier) ? objectives[tier]?.[classification] : undefined;
}
