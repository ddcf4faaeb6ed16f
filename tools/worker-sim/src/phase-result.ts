import { type Choice } from './answer-shapes.ts';
import { type JsonObject } from './exact-json.ts';

/** What a phase has to say, before it is cut into frames. */
export interface PhaseResult {
  choices: Choice[];
  cachedTokens: number;
  kvTransferParams: JsonObject | null;
  ecTransferParams: JsonObject | null;
  /** Called when the answer is complete or cut: gives back what the request held. */
  release: () => void;
}
