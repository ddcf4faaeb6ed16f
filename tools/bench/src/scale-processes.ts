import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CascadeProcess, freePort } from './cascade-process.ts';

const scriptOf = (folder: string): string =>
  fileURLToPath(new URL(`../../../${folder}/dist/main.js`, import.meta.url));

/** A coordinator of a scale bench. */
export interface Replica {
  readonly url: string;
  readonly process: CascadeProcess;
}

/** Starts coordinators as they are in production, traces apart. */
export async function startReplicas(
  count: number,
  directory: string,
  { gateway, render }: { readonly gateway: string; readonly render: string },
): Promise<Replica[]> {
  const start = async (index: number): Promise<Replica> => {
    const port = await freePort();
    const steps = [
      { type: 'replace-media-urls' },
      { type: 'render', params: { address: render } },
      ...[{ type: 'encode' }, { type: 'prefill' }, { type: 'decode' }],
    ];
    const config = {
      log_level: 2,
      server: { listen_addr: `127.0.0.1:${port}`, metrics_port: await freePort() },
      gateway: { address: gateway },
      pipeline: { kv_connector: 'kv-nixl', ec_connector: 'ec-nixl', steps },
    };
    const file = join(directory, `coordinator-${index}.yaml`);
    await writeFile(file, JSON.stringify(config));
    const command = `${process.execPath} ${scriptOf('apps/coordinator')} --config ${file}`;
    const child = await CascadeProcess.start(`coordinator ${index}`, command, port, false);
    return { url: `http://127.0.0.1:${port}`, process: child };
  };
  const started: Replica[] = [];
  try {
    // One after the other: two that look for a free port at once may find the same.
    for (let index = 0; index < count; index++) started.push(await start(index));
  } catch (error) {
    await stopReplicas(started);
    throw error;
  }
  return started;
}

/** Ends them all. */
export async function stopReplicas(replicas: readonly Replica[]): Promise<void> {
  await Promise.all(replicas.map((replica) => replica.process.stop()));
}

/** Starts gateway-sim in front of coordinators, with one worker for both phases; `ports` are public, internal and admin. */
export function startGatewaySim(
  replicas: readonly Replica[],
  worker: string,
  [publicPort, internalPort, adminPort]: readonly [number, number, number],
): Promise<CascadeProcess> {
  const { host } = new URL(worker);
  const flags = [
    ...['--host=127.0.0.1', `--public-port=${publicPort}`, `--internal-port=${internalPort}`],
    ...[`--admin-port=${adminPort}`, `--coordinator=${replicas.map(({ url }) => url).join()}`],
    `--endpoint=worker=${host},prefill-decode`,
  ];
  const command = `${process.execPath} ${scriptOf('tools/gateway-sim')} ${flags.join(' ')}`;
  return CascadeProcess.start('gateway-sim', command, adminPort, false, '/ready');
}
