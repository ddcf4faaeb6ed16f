import { parseArgs } from 'node:util';
import { aborts } from './aborts.ts';
import { asyncSoak } from './async/async-soak.ts';
import { fuzz } from './fuzz.ts';
import { mediaSoak } from './media.ts';
import { renderSoak } from './render.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string' },
    full: { type: 'boolean' },
    seconds: { type: 'string' },
    seed: { type: 'string' },
    rate: { type: 'string' },
  },
});
const number = (text: string | undefined, absent: number): number => (text ? Number(text) : absent);

const limits = (count: number) => ({
  count: number(values.count, count),
  seconds: number(values.seconds, 900),
  seed: number(values.seed, Date.now() % 100_000),
});

switch (positionals[0]) {
  case 'fuzz':
    tell(await fuzz(limits(100_000)));
    break;
  case 'aborts':
    tell(await aborts(limits(10_000)));
    break;
  case 'async':
    tell(await asyncSoak(values.full ? 'full' : 'short'));
    break;
  case 'media':
    tell(
      await mediaSoak({
        seconds: number(values.seconds, 120),
        seed: limits(0).seed,
        rate: number(values.rate, 100),
      }),
    );
    break;
  case 'render':
    tell(
      await renderSoak({
        seconds: number(values.seconds, 60),
        rate: number(values.rate, 200),
        judgesTimes: true,
      }),
    );
    break;
  default:
    console.error(
      `expected fuzz, aborts, async, media or render, got ${positionals[0] ?? 'nothing'}`,
    );
    process.exitCode = 2;
}

function tell(result: { readonly faults: readonly string[] }): void {
  console.log(JSON.stringify(result, undefined, 2));
  process.exitCode = result.faults.length > 0 ? 1 : 0;
}
