import { type EncodeGate } from '../encode-gate.ts';
import { badRequest } from '../errors.ts';
import { type RenderCache } from '../render-cache.ts';
import { type RenderCaller } from '../render-notes.ts';
import { NativeEngine, nativeLibrary } from './native-engine.ts';
import { ScriptEngine } from './script-engine.ts';
import { type Encoded, type TokenizerChoice, type TokenizerEngine } from './tokenizer-engine.ts';
import { WordCache } from './word-cache.ts';

/** Shorter texts take about a millisecond and do not wait for long ones. */
const SHORT_TEXT_CHARACTERS = 8192;

/** Where long texts wait, and known ones are remembered. */
export interface TokenizerWorkers {
  readonly gate: EncodeGate;
  readonly cache: RenderCache;
}

/** Whether texts with special tokens start with the one of the beginning: `auto` leaves it to the tokenizer's own rule. */
export type BosPolicy = 'auto' | 'always' | 'never';

/** How a tokenizer is loaded. */
export interface TokenizerOptions {
  readonly choice?: TokenizerChoice | undefined;
  readonly bos?: BosPolicy | undefined;
  /** Text of the token of the beginning. */
  readonly bosToken?: string | undefined;
}

/** Tells tokenizers apart in the cache that they share. */
let tokenizers = 0;

/** The tokenizer of a profile. Nothing that takes long runs on the event loop. */
export class Tokenizer {
  private readonly engine: TokenizerEngine;
  private readonly size: number;
  private readonly workers: TokenizerWorkers;
  private readonly scope = `${++tokenizers}`;

  private readonly bos: BosRule | undefined;

  private constructor(
    engine: TokenizerEngine,
    size: number,
    workers: TokenizerWorkers,
    bos: BosRule | undefined,
  ) {
    this.bos = bos;
    this.engine = engine;
    this.size = size;
    this.workers = workers;
  }

  /** Takes the text of a `tokenizer.json`; rejects with the library's error when it is not one. */
  static async load(
    definition: string,
    workers: TokenizerWorkers,
    { choice = 'auto', bos = 'auto', bosToken }: TokenizerOptions = {},
  ): Promise<Tokenizer> {
    const engine = await loadEngine(definition, choice);
    const rule = bos === 'auto' ? undefined : await bosRule(engine, bos, bosToken);
    return new Tokenizer(engine, await engine.size(), workers, rule);
  }

  /** Ids of a text. A lone surrogate has no bytes to tokenize and is refused, as upstream does. */
  async encode(
    text: string,
    options: RenderCaller & {
      readonly addSpecialTokens: boolean;
      readonly withOffsets?: boolean;
    },
  ): Promise<Encoded> {
    if (!text.isWellFormed()) {
      throw badRequest('the text holds a lone surrogate, which has no UTF-8 form');
    }
    const { addSpecialTokens, withOffsets = false, signal, notes, tenant = '' } = options;
    if (text === '' && !addSpecialTokens) {
      return { ids: new Uint32Array(), offsets: withOffsets ? [] : undefined };
    }
    const { cache, gate } = this.workers;
    const scope = `${this.scope} ${addSpecialTokens} ${withOffsets} ${tenant}`;
    const encode = async () => {
      const encoded = await this.engine.encode(text, addSpecialTokens, withOffsets);
      return addSpecialTokens && this.bos !== undefined ? withBos(encoded, this.bos) : encoded;
    };
    const inTurn = () =>
      text.length <= SHORT_TEXT_CHARACTERS ? encode() : gate.run(encode, signal);
    const startedAt = performance.now();
    try {
      return await cache.encoded(scope, text, inTurn, notes);
    } finally {
      notes?.spent('tokenize', startedAt);
    }
  }

  /** Text of ids, special tokens included; unknown ids give nothing. */
  async decode(ids: Iterable<number>): Promise<string> {
    const known = Array.from(ids).filter((id) => id < this.size);
    return known.length === 0 ? '' : this.engine.decode(known);
  }

  /** The spelling of each id in the vocabulary, null for unknown ids. */
  async spellings(ids: Iterable<number>): Promise<(string | null)[]> {
    return this.engine.spellings([...ids]);
  }

  /** Releases what the library holds. */
  async close(): Promise<void> {
    await this.engine.close();
  }
}

/** What becomes of the first token of a text with special tokens. */
interface BosRule {
  readonly policy: Exclude<BosPolicy, 'auto'>;
  readonly id: number;
}

async function bosRule(
  engine: TokenizerEngine,
  policy: Exclude<BosPolicy, 'auto'>,
  token: string | undefined,
): Promise<BosRule> {
  const ids = token === undefined ? [] : [...(await engine.encode(token, false, false)).ids];
  const [id, other] = ids;
  if (id === undefined || other !== undefined) {
    throw new Error(`bos: ${policy}: tokenizer_config.json has no bos_token that is one token`);
  }
  return { policy, id };
}

function withBos({ ids, offsets }: Encoded, { policy, id }: BosRule): Encoded {
  const hasBos = ids[0] === id;
  if (hasBos === (policy === 'always')) return { ids, offsets };
  if (hasBos) return { ids: ids.subarray(1), offsets: offsets?.slice(1) };
  return { ids: Uint32Array.of(id, ...ids), offsets: offsets && [[0, 0], ...offsets] };
}

async function loadEngine(definition: string, choice: TokenizerChoice): Promise<TokenizerEngine> {
  const library = choice === 'javascript' ? undefined : await nativeLibrary(choice === 'native');
  return library === undefined
    ? ScriptEngine.load(definition)
    : new NativeEngine(library.Tokenizer.fromString(definition), WordCache.for(definition));
}
