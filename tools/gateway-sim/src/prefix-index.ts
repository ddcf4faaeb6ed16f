import { type PromptBlocks } from './prompt-blocks.ts';

/** How much of a prompt a pod is believed to hold. */
export interface PrefixMatch {
  blocks: number;
  /** The partial last block matches too: exactly this prompt was sent before. */
  isWhole: boolean;
}

/** Which pod got which blocks, an LRU per pod. A belief: nobody asks the pods. */
export class PrefixIndex {
  readonly #capacity: number;
  readonly #pods = new Map<string, Set<string>>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Longest run of leading blocks that this pod got before. */
  match(pod: string, prompt: PromptBlocks): PrefixMatch {
    const known = this.#pods.get(pod);
    if (!known) return { blocks: 0, isWhole: false };
    const miss = prompt.blocks.findIndex((block) => !known.has(block));
    if (miss !== -1) return { blocks: miss, isWhole: false };
    return {
      blocks: prompt.blocks.length,
      isWhole: prompt.partial === undefined ? prompt.blocks.length > 0 : known.has(prompt.partial),
    };
  }

  /** Notes that a pod holds this prompt now. */
  record(pod: string, prompt: PromptBlocks): void {
    const known = this.#pods.get(pod) ?? new Set<string>();
    this.#pods.set(pod, known);
    for (const block of [...prompt.blocks, ...(prompt.partial ? [prompt.partial] : [])]) {
      known.delete(block);
      known.add(block);
    }
    for (const oldest of known) {
      if (known.size <= this.#capacity) return;
      known.delete(oldest);
    }
  }
}
