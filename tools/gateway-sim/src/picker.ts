import { type Profile } from './roles.ts';

/** A pod that may serve, with what the picker knows of it. */
export interface Candidate {
  name: string;
  activeRequests: number;
  inflightTokens: number;
  /** Leading prompt blocks it is believed to hold. */
  matchedBlocks: number;
}

/** The choice and why. */
export interface Pick<Pod extends Candidate> {
  pod: Pod;
  score: number;
  isSticky: boolean;
}

const affinityThreshold = 0.8;
const maxTtftPenaltyMs = 18_000;
const peakPrefillTokensPerSecond = 15_928;
const queueThresholdTokens = 4_194_304;

const ttftMs = ({ inflightTokens }: Candidate): number =>
  (inflightTokens / peakPrefillTokensPerSecond) * 1000;

const best = (candidates: readonly Candidate[]): number => Math.min(...candidates.map(ttftMs));

/**
 * Picks a pod (deploy.md 3.3): pods that hold most of the prompt first, unless waiting for them costs
 * too much; then the least loaded; equals by the dice. Undefined without candidates.
 */
export function pickPod<Pod extends Candidate>(
  profile: Profile,
  candidates: readonly Pod[],
  totalBlocks: number,
  random: () => number,
): Pick<Pod> | undefined {
  const sticky =
    totalBlocks === 0
      ? []
      : candidates.filter(({ matchedBlocks }) => matchedBlocks / totalBlocks >= affinityThreshold);
  const others = candidates.filter((candidate) => !sticky.includes(candidate));
  const isSticky =
    sticky.length > 0 && (others.length === 0 || best(sticky) - best(others) <= maxTtftPenaltyMs);
  const pool = isSticky ? sticky : candidates;
  const maxActive = Math.max(0, ...pool.map(({ activeRequests }) => activeRequests));
  const scored = pool.map((pod) => ({ pod, isSticky, score: score(profile, pod, maxActive) }));
  const top = Math.max(...scored.map((entry) => entry.score));
  const equals = scored.filter((entry) => entry.score === top);
  return equals[Math.floor(random() * equals.length)];
}

function score(profile: Profile, candidate: Candidate, maxActive: number): number {
  if (profile === 'prefill') {
    return 1 - Math.min(1, candidate.inflightTokens / queueThresholdTokens);
  }
  const { activeRequests } = candidate;
  return activeRequests === 0 ? 1 : (maxActive - activeRequests) / maxActive;
}
