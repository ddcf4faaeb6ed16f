import { once } from 'node:events';
import { connect } from 'node:net';

/** Opens and closes a TCP connection to the host of an address. Rejects when nobody listens there. */
export async function canConnect(address: string): Promise<void> {
  const { hostname, port, protocol } = new URL(address);
  const defaultPort = protocol === 'https:' ? 443 : 80;
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const socket = connect({ host, port: port === '' ? defaultPort : Number(port) });
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(connectLimitMs) });
  } finally {
    socket.destroy();
  }
}

/** A probe must not leave sockets behind that nobody answers. */
const connectLimitMs = 1_000;
