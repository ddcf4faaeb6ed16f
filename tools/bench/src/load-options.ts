import { parseArgs } from 'node:util';
import { type MixOptions } from './prompt-mix.ts';

/** What `bench load` is asked for. */
export interface LoadOptions extends MixOptions {
  readonly url: string;
  readonly rate: number;
  readonly seconds: number;
}

/** Reads the flags of `bench load`. @throws Error that names the flag */
export function loadOptions(args: readonly string[]): LoadOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      url: { type: 'string', default: 'http://127.0.0.1:8080' },
      model: { type: 'string', default: 'sim/model' },
      rate: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '60' },
      images: { type: 'string', default: '0.1' },
      cancels: { type: 'string', default: '0.05' },
      'max-tokens': { type: 'string', default: '50' },
      seed: { type: 'string', default: '1' },
    },
  });
  const number = (flag: keyof typeof values, most = Infinity): number => {
    const value = Number(values[flag]);
    if (!(value >= 0 && value <= most)) {
      throw new Error(`--${flag}: expected a number up to ${most}, got ${values[flag]}`);
    }
    return value;
  };
  return {
    url: new URL(values.url).origin,
    model: values.model,
    ...{ rate: number('rate'), seconds: number('seconds'), seed: number('seed') },
    ...{ images: number('images', 1), cancels: number('cancels', 1) },
    maxTokens: number('max-tokens'),
  };
}
