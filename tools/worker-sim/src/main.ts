import { optionsFrom } from './command-line.ts';
import { startWorker } from './worker.ts';

const { pods, options } = optionsFrom(process.argv.slice(2), process.env);
const workers = await Promise.all(
  options.map((podOptions) =>
    startWorker(podOptions, { preload: true, exit: (code) => process.exit(code) }),
  ),
);
for (const { podName, url, kvPort, ecPort } of workers) {
  console.log(JSON.stringify({ msg: 'worker-sim listening', podName, url, kvPort, ecPort, pods }));
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void Promise.all(workers.map((worker) => worker.close())).then(() => process.exit(0));
  });
}
