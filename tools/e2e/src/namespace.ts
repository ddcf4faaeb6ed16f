/**
 * A network namespace of its own for a program: `ip` changes nothing outside, and ports below 1024 are free.
 * Only Linux has them. Where they are not allowed, tests fail unless E2E_WITHOUT_NAMESPACE says to do without.
 */
export const hasNamespace = process.platform === 'linux' && !process.env['E2E_WITHOUT_NAMESPACE'];

/** What to do where no namespace can be made. */
export const namespaceHelp =
  'this runs in a network namespace: allow user namespaces (in a container, CAP_SYS_ADMIN) and install iproute2, or ' +
  'leave these cases out with E2E_WITHOUT_NAMESPACE=1.';

/** Routes every address to this machine, so that a server on `::` is found at all of them. */
export const everyAddressIsLocal =
  'ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo';

/**
 * Has the system buffer at most 64 KiB of a connection in each direction, where a container lets it: of the loopback it
 * buffers megabytes.
 */
export const smallBuffers =
  '{ for one in rmem wmem; do echo 4096 16384 65536 > /proc/sys/net/ipv4/tcp_$one; done; } 2>/dev/null; true';

/** The words to put before a command, to run it in a namespace that a shell command has set up. */
export function inNamespace(setUp: string): string[] {
  return ['unshare', '-rn', 'sh', '-c', `ip link set lo up && ${setUp} && exec "$@"`, 'sh'];
}
