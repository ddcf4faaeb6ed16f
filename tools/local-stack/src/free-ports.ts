import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below the ports that the system hands out: a child listens seconds later, and no connection may take its port until then. */
const [firstPort, lastPort] = [15_000, 32_000];

/** Each caller starts at a block of its own, so that stacks that start together seldom try the same ports. */
const blockSize = 100;

/** Ports of loopback that nobody listens on, all different. @throws Error when there are not enough. */
export async function freePorts(count: number): Promise<number[]> {
  const blocks = (lastPort - firstPort) / blockSize;
  let port = firstPort + randomInt(blocks) * blockSize;
  const found: number[] = [];
  for (let tried = firstPort; found.length < count; tried++) {
    if (tried === lastPort) throw new Error(`fewer than ${count} ports are free`);
    if (await isFree(port)) found.push(port);
    port = port + 1 < lastPort ? port + 1 : firstPort;
  }
  return found;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
