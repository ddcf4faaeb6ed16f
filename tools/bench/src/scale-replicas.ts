import { Agent } from 'undici';
import { makeCase } from './cascade-cases.ts';
import { freePort } from './cascade-process.ts';
import { cpuMs } from './cpu-time.ts';
import { median } from './median.ts';
import { openLoop, quantile } from './open-loop.ts';
import { printTable } from './print-table.ts';
import { type Replica, startGatewaySim, startReplicas, stopReplicas } from './scale-processes.ts';
import { StubUpstream } from './stub-upstream.ts';

const counts = [1, 2, 4];
const flatWithin = 1.1;
const text = makeCase(
  { promptBytes: 2_048, tokens: 400 },
  { name: 'text, 2 KB', requests: 0, parallel: 0, target: 1 },
);

/** What one round cost. */
interface Round {
  readonly cpuMsEach: number;
  readonly gatewayCpuMsEach: number;
  readonly latencies: readonly number[];
}

/** What a run is asked for. */
export interface ReplicaOptions {
  /** Requests a second of each replica. */
  readonly rate: number;
  readonly seconds: number;
  readonly rounds: number;
  readonly directory: string;
}

/** Coordinators behind one gateway-sim, each with the same share of an open loop: what a request costs them all. */
export async function scaleReplicas(options: ReplicaOptions): Promise<void> {
  const { rounds, directory } = options;
  const stub = new StubUpstream();
  stub.current = text;
  const worker = await stub.start();
  const [publicPort, internalPort] = [await freePort(), await freePort()];
  const place = { gateway: `http://127.0.0.1:${internalPort}`, render: worker };
  const replicas = await startReplicas(Math.max(...counts), directory, place);
  const measure = async (count: number, turn: number): Promise<Round> => {
    // Others begin each round, so that all are equally warm.
    const [rest, first] = [replicas.slice(0, turn), replicas.slice(turn)];
    const some = [...first, ...rest].slice(0, count);
    const ports = [publicPort, internalPort, await freePort()] as const;
    const gateway = await startGatewaySim(some, worker, ports);
    try {
      return await round(some, gateway.pid, `http://127.0.0.1:${publicPort}`, options);
    } finally {
      await gateway.stop();
    }
  };
  try {
    await measure(replicas.length, 0);
    const measured = new Map<number, Round[]>(counts.map((count) => [count, []]));
    for (let turn = 0; turn < rounds; turn++) {
      for (const count of counts) {
        measured.get(count)?.push(await measure(count, turn % replicas.length));
      }
    }
    print(measured, options.rate);
  } finally {
    await stopReplicas(replicas);
    stub.close();
  }
}

async function round(
  replicas: readonly Replica[],
  gatewayPid: number,
  origin: string,
  { rate, seconds }: ReplicaOptions,
): Promise<Round> {
  const agent = new Agent({ pipelining: 1 });
  const used = (): number => replicas.reduce((sum, replica) => sum + cpuMs(replica.process.pid), 0);
  const [before, gatewayBefore] = [used(), cpuMs(gatewayPid)];
  const ask = async (_index: number, dueAt: number): Promise<number> => {
    const answer = await agent.request({
      ...{ origin, path: '/v1/chat/completions', method: 'POST', body: text.body },
      headers: { 'content-type': 'application/json' },
    });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
    return performance.now() - dueAt;
  };
  const latencies = await openLoop({ rate: rate * replicas.length, seconds }, ask);
  const each = (ms: number): number => ms / latencies.length;
  const [after, gatewayAfter] = [used(), cpuMs(gatewayPid)];
  await agent.close();
  return {
    cpuMsEach: each(after - before),
    gatewayCpuMsEach: each(gatewayAfter - gatewayBefore),
    latencies,
  };
}

function print(measured: ReadonlyMap<number, readonly Round[]>, rate: number): void {
  const costOf = (rounds: readonly Round[] = []): number =>
    median(rounds.map(({ cpuMsEach }) => cpuMsEach));
  const alone = costOf(measured.get(1));
  const rows = [...measured].map(([count, rounds]) => {
    const ratio = costOf(rounds) / alone;
    const latencies = rounds.flatMap((one) => one.latencies);
    return [
      ...[String(count), String(count * rate), costOf(rounds).toFixed(2), ratio.toFixed(2)],
      ratio <= flatWithin ? 'yes' : 'NO',
      median(rounds.map((one) => one.gatewayCpuMsEach)).toFixed(2),
      ...[0.5, 0.99].map((share) => quantile(latencies, share).toFixed(1)),
    ];
  });
  printTable(
    [
      ...['replicas', 'requests/s', 'CPU ms each', 'ratio', 'within 10 %'],
      ...['gateway-sim CPU ms', 'p50 ms', 'p99 ms'],
    ],
    rows,
  );
}
