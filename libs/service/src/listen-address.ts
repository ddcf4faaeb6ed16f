/** Where to listen. */
export interface ListenAddress {
  /** Absent means every interface, IPv6 and IPv4. */
  readonly host?: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/**
 * Reads a listen address as Go writes it: `:8080`, `127.0.0.1:0`, `localhost:80`, `[::1]:80`.
 * Returns undefined when the text is no such address.
 */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) return undefined;
  const host = match[1] ?? match[2];
  return host === undefined || host === '' ? { port } : { host, port };
}

/** Whether only this machine can reach an address. */
export function isLoopback({ host }: ListenAddress): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host ?? '');
}
