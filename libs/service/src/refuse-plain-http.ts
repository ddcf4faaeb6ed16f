import { type Server } from 'node:https';
import { type Socket } from 'node:net';

/** First byte of a TLS connection: the record type `handshake`. */
const handshake = 0x16;

/**
 * Has a TLS server hand connections that begin with anything but a handshake to `refuse`, which can still
 * write to them in plain text. A connection that says nothing ends after `silentMs` (0 = never).
 */
export function refusePlainHttp(
  server: Server,
  silentMs: number,
  refuse: (socket: Socket) => void,
): void {
  const accept = server.listeners('connection');
  const open = new Set<Socket>();
  const silent = new Set<Socket>();
  const onError = function (this: Socket): void {
    this.destroy();
  };
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    open.add(socket);
    silent.add(socket);
    socket
      .on('error', onError)
      .once('close', () => {
        open.delete(socket);
        silent.delete(socket);
      })
      .setTimeout(silentMs, onError)
      .once('data', (first: Buffer) => {
        silent.delete(socket);
        socket.setTimeout(0, onError).pause();
        if (first[0] !== handshake) {
          refuse(socket);
          return;
        }
        socket.off('error', onError).unshift(first);
        for (const listener of accept) listener.call(server, socket);
      });
  });
  closeUnknownToo(server, open, silent);
}

/**
 * Node knows a connection only after its handshake. A drain would wait for those that never begin one, and could not
 * end those that never finish one.
 */
function closeUnknownToo(
  server: Server,
  open: ReadonlySet<Socket>,
  silent: ReadonlySet<Socket>,
): void {
  const closeIdle = server.closeIdleConnections.bind(server);
  const closeAll = server.closeAllConnections.bind(server);
  server.closeIdleConnections = () => {
    closeIdle();
    for (const socket of silent) socket.destroy();
  };
  server.closeAllConnections = () => {
    closeAll();
    for (const socket of open) socket.destroy();
  };
}
