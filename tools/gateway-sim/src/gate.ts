import { type GateMode } from './options.ts';
import { type PrefixMatch } from './prefix-index.ts';
import { type PromptBlocks } from './prompt-blocks.ts';

/** Settings of the gate (deploy.md 1.8). */
export interface GateRules {
  mode: GateMode;
  noncachedTokens: number;
  promptTokens: number;
  blockSize: number;
}

/** True when a `Prefer` header asks for a cached answer only; parameters and other preferences are skipped. */
export const prefersIfAvailable = (prefer: string | undefined): boolean =>
  (prefer ?? '')
    .split(',')
    .some((part) => part.split(';')[0]?.trim().toLowerCase() === 'if-available');

/** Whether the chosen pod holds enough of the prompt to be asked; false means 412. */
export function opensGate(rules: GateRules, prompt: PromptBlocks, match: PrefixMatch): boolean {
  switch (rules.mode) {
    case 'off':
      return true;
    case 'always412':
      return false;
    case 'legacy':
      // One block is enough, and a partial last block counts as one.
      return match.blocks > 0 || match.isWhole;
    case 'decider': {
      const cached = match.isWhole ? prompt.tokens : match.blocks * rules.blockSize;
      return prompt.tokens < rules.promptTokens || prompt.tokens - cached < rules.noncachedTokens;
    }
  }
}
