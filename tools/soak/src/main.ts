import { parseArgs } from 'node:util';
import { fuzz } from './fuzz.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string' },
    seconds: { type: 'string' },
    seed: { type: 'string' },
  },
});
const number = (text: string | undefined, absent: number): number => (text ? Number(text) : absent);

switch (positionals[0]) {
  case 'fuzz': {
    const result = await fuzz({
      count: number(values.count, 100_000),
      seconds: number(values.seconds, 900),
      seed: number(values.seed, Date.now() % 100_000),
    });
    console.log(JSON.stringify(result, undefined, 2));
    process.exitCode = result.faults.length > 0 ? 1 : 0;
    break;
  }
  default:
    console.error(`expected fuzz, got ${positionals[0] ?? 'nothing'}`);
    process.exitCode = 2;
}
