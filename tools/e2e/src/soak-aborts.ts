import { parseArgs } from 'node:util';
import { openOf, runAbortSoak } from './abort-soak.ts';

// npm run -s soak -- aborts: node --conditions=@llm-d/source tools/e2e/src/soak-aborts.ts --count 10000
const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '10000' },
    clients: { type: 'string', default: '24' },
    seed: { type: 'string', default: '1' },
  },
});
const report = await runAbortSoak({
  count: Number(values.count),
  clients: Number(values.clients),
  seed: Number(values.seed),
  onProgress: (done) => console.log(`${done} requests`),
});
console.log(JSON.stringify(report, null, 2));
const { kv, ec, leases, running, sockets = 0, surprises } = report;
const { held, pulledAgain, pulledLate } = leases;
const faults = [
  openOf(kv),
  openOf(ec),
  held,
  pulledAgain,
  pulledLate,
  running,
  sockets,
  surprises.length,
];
process.exitCode = faults.every((count) => count === 0) ? 0 : 1;
