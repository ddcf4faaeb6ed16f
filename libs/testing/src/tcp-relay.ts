import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A hop on the way to a server, which fails as a network does. It ends with `close` or an `await using`. */
export interface TcpRelay extends AsyncDisposable {
  /** The server's URL, by way of this hop. */
  readonly url: string;
  /** Lets no byte through either way: connections stay open, new ones are taken, and nothing answers. */
  cut(): void;
  /** Lets through what was held back, and all that follows. */
  mend(): void;
  /** Ends all connections; those that come from now on lead to another server. */
  redirect(url: string): void;
  /**
   * Sees bytes before they pass; `true` holds them back for good, as the death of either end would. Bytes of one command or
   * answer are expected to come in one piece, which small ones do.
   */
  watch(see: (bytes: Buffer, from: 'client' | 'server') => boolean): void;
  close(): Promise<void>;
}

/** Starts a relay to a server on this machine. */
export async function startTcpRelay(url: string): Promise<TcpRelay> {
  let target = new URL(url);
  let isCut = false;
  let see: Parameters<TcpRelay['watch']>[0] = () => false;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to, side] of [
      [client, upstream, 'client'],
      [upstream, client, 'server'],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on('data', (bytes: Buffer) => {
        if (!see(bytes, side)) to.write(bytes);
      });
      if (isCut) from.pause();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  const endAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const close = async (): Promise<void> => {
    endAll();
    server.close();
    await once(server, 'close');
  };
  return {
    url: `${target.protocol}//127.0.0.1:${port}`,
    cut: () => {
      isCut = true;
      for (const socket of sockets) socket.pause();
    },
    mend: () => {
      isCut = false;
      for (const socket of sockets) socket.resume();
    },
    redirect: (next) => {
      target = new URL(next);
      endAll();
    },
    watch: (next) => {
      see = next;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
