import { badField } from './api-error.ts';

/** Everything that can be made to go wrong; the README has a line on each. */
export const faultNames = [
  'status',
  'delay',
  'hang',
  'reset',
  'truncate',
  'stall',
  'error-frame',
  'garbage',
  'tiny-chunks',
  'drop-kv-params',
  'null-ec',
  'wrong-engine',
  'lease-expire',
  'oom',
  'not-ready',
] as const;

/** Name of a fault. */
export type FaultName = (typeof faultNames)[number];

/** One fault: `value` is what stands after `=`, `after` counts answer tokens, `rate` is in per cent. */
export interface Fault {
  name: FaultName;
  value: number | undefined;
  after: number | undefined;
  ms: number | undefined;
  rate: number;
}

const isFaultName = (name: string): name is FaultName =>
  (faultNames as readonly string[]).includes(name);

/** Reads `status=503;rate=10, stall;after=3;ms=500`. Throws ApiError 400 on what it does not know. */
export function parseFaults(text: string): Fault[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(parseFault);
}

function parseFault(text: string): Fault {
  const [head = '', ...settings] = text.split(';').map((part) => part.trim());
  const [name = '', value] = head.split('=');
  if (!isFaultName(name)) throw badField('X-Sim-Fault', `unknown fault '${name}'`);
  const fault: Fault = {
    name,
    value: value === undefined ? undefined : number(value),
    after: undefined,
    ms: undefined,
    rate: 100,
  };
  for (const setting of settings) {
    const [key = '', raw = ''] = setting.split('=');
    if (key !== 'after' && key !== 'ms' && key !== 'rate') {
      throw badField('X-Sim-Fault', `unknown setting '${key}' of fault '${name}'`);
    }
    fault[key] = number(raw);
  }
  return fault;
}

function number(text: string): number {
  const value = Number(text);
  if (text === '' || !Number.isFinite(value) || value < 0) {
    throw badField('X-Sim-Fault', `'${text}' is not a number`);
  }
  return value;
}

/** The faults that strike one request; the dice are rolled once. */
export class ActiveFaults {
  readonly #faults: Fault[];
  readonly #onStrike: (name: FaultName) => void;

  constructor(faults: readonly Fault[], random: () => number, onStrike: (name: FaultName) => void) {
    this.#faults = faults.filter(({ rate }) => rate >= 100 || random() * 100 < rate);
    this.#onStrike = onStrike;
  }

  /** The fault before anything was sent: one without `after`. Counted when it is there. */
  atStart(name: FaultName): Fault | undefined {
    return this.#strike(
      this.#faults.find((fault) => fault.name === name && fault.after === undefined),
    );
  }

  /** The fault that strikes when so many tokens were sent. */
  afterTokens(name: FaultName, tokens: number): Fault | undefined {
    return this.#strike(
      this.#faults.find((fault) => fault.name === name && fault.after === tokens),
    );
  }

  #strike(fault: Fault | undefined): Fault | undefined {
    if (fault) this.#onStrike(fault.name);
    return fault;
  }
}
