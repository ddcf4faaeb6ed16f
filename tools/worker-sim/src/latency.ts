import { type Tuning } from './options.ts';

type Knob =
  | 'ttftMs'
  | 'prefillOverheadMs'
  | 'prefillPerTokenUs'
  | 'itlMs'
  | 'kvTransferSetupMs'
  | 'kvTransferPerTokenUs'
  | 'encodeOverheadMs'
  | 'encodePerTokenUs';

const zero: Record<Knob, number> = {
  ttftMs: 0,
  prefillOverheadMs: 0,
  prefillPerTokenUs: 0,
  itlMs: 0,
  kvTransferSetupMs: 0,
  kvTransferPerTokenUs: 0,
  encodeOverheadMs: 0,
  encodePerTokenUs: 0,
};

/** Presets of `SIM_PROFILE`, from the indicative figures of deploy.md 2.1. */
const presets: Record<Tuning['profile'], Record<Knob, number>> = {
  zero,
  'h100-8b': {
    ...zero,
    prefillOverheadMs: 32,
    prefillPerTokenUs: 220,
    itlMs: 12,
    kvTransferSetupMs: 2,
    kvTransferPerTokenUs: 10,
    encodeOverheadMs: 20,
    encodePerTokenUs: 40,
  },
  'h100x8-70b': {
    ...zero,
    prefillOverheadMs: 80,
    prefillPerTokenUs: 400,
    itlMs: 22,
    kvTransferSetupMs: 5,
    kvTransferPerTokenUs: 30,
    encodeOverheadMs: 30,
    encodePerTokenUs: 60,
  },
};

/** Load of the pod at this moment; more running requests are slower when `loadFactor` is above 1. */
export interface Load {
  running: number;
  random: () => number;
}

/** How long the phases of one request take, in milliseconds (deploy.md 2.1 and 2.9). */
export interface Latency {
  encode(placeholderTokens: number): number;
  prefill(computedTokens: number): number;
  kvTransfer(promptTokens: number): number;
  token(): number;
}

const jitterClamp = 0.7;

/** Standard normal by Box and Muller. */
const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** The latency model of one request. */
export function latencyOf(tuning: Tuning, load: Load): Latency {
  const knob = (name: Knob): number => tuning[name] ?? presets[tuning.profile][name];
  const factor =
    1 +
    ((tuning.loadFactor - 1) * Math.max(0, load.running - 1)) / Math.max(1, tuning.maxNumSeqs - 1);
  const wait = (ms: number): number => {
    const deviation = (normal(load.random) * tuning.jitterPct) / 100;
    const jitter = Math.min(jitterClamp, Math.max(-jitterClamp, deviation));
    return ms * (1 + jitter) * tuning.timeScale;
  };
  const hasTokenModel = knob('prefillOverheadMs') > 0 || knob('prefillPerTokenUs') > 0;
  return {
    encode: (tokens) =>
      wait((knob('encodeOverheadMs') + (tokens * knob('encodePerTokenUs')) / 1000) * factor),
    prefill: (tokens) =>
      wait(
        (hasTokenModel
          ? knob('prefillOverheadMs') + (tokens * knob('prefillPerTokenUs')) / 1000
          : knob('ttftMs')) * factor,
      ),
    // The network does not slow down with the pod's own load.
    kvTransfer: (tokens) =>
      wait(knob('kvTransferSetupMs') + (tokens * knob('kvTransferPerTokenUs')) / 1000),
    token: () => wait(knob('itlMs') * factor),
  };
}
